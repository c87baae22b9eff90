"""Agents of a recipe: their definition files, modes, and what a step may change about them."""

from __future__ import annotations

import pytest

from tests.recipes.fakes import Workshop, recipe, rule

ASK = 'steps: [{{id: a, agent: {agent}, prompt: "STEP:a"{more}}}]'


def ask(agent: str = "helper", more: str = "") -> str:
    return recipe(ASK.format(agent=f'"{agent}"', more=more and f", {more}"))


def test_r8_11_a_definition_gives_system_prompt_model_and_tools(shop: Workshop) -> None:
    shop.agent(
        "reviewer",
        """
        ---
        name: reviewer
        description: Reviews code
        model: opus
        tools: Read, Grep, Bash(git log, git diff)
        ---
        You review code.

        Be brief.
        """,
    )
    shop.play(ask("reviewer"))
    (call,) = shop.calls()
    assert call.text == "STEP:a"
    assert call.model == "opus"
    assert call.flag("--append-system-prompt") == "You review code.\n\nBe brief."
    assert _tools(call) == "Read,Grep,Bash(git log, git diff)"


def test_r8_11_the_tools_of_a_definition_are_the_only_ones(shop: Workshop) -> None:
    """Claude Code's own meaning of `tools`. What is merely allowed limits nothing."""
    shop.agent("looker", "---\nname: looker\ntools: [Read, Grep]\n---\nLook.\n")
    shop.play(ask("looker"))
    (call,) = shop.calls()
    assert call.flag("--tools") == "Read,Grep"


@pytest.mark.parametrize("place", [".orchestrate/agents", ".claude/agents"])
@pytest.mark.parametrize("name", ["reviewer", "team:reviewer", "a:b:reviewer"])
def test_r8_11_definitions_are_found_in_both_places(shop: Workshop, place: str, name: str) -> None:
    shop.agent(name, "---\nname: reviewer\n---\nFound me.\n", place=place)
    shop.play(ask(name))
    (call,) = shop.calls()
    assert call.flag("--append-system-prompt") == "Found me."


def test_r8_11_our_own_place_comes_first(shop: Workshop) -> None:
    shop.agent("both", "---\nname: both\n---\nOurs.\n")
    shop.agent("both", "---\nname: both\n---\nTheirs.\n", place=".claude/agents")
    shop.play(ask("both"))
    (call,) = shop.calls()
    assert call.flag("--append-system-prompt") == "Ours."


@pytest.mark.parametrize("name", ["nobody", "team:nobody"])
def test_r8_11_a_missing_agent_is_refused_with_the_places(shop: Workshop, name: str) -> None:
    path = name.replace(":", "/")
    text = recipe(f"""
        steps:
          - {{id: first, agent: helper, prompt: "STEP:first"}}
          - {{id: second, agent: "{name}", prompt: "STEP:second"}}
    """)
    said = shop.refuse(text).stderr
    assert f"'{name}'" in said
    assert f".orchestrate/agents/{path}.md" in said
    assert f".claude/agents/{path}.md" in said


def test_r8_11_a_missing_agent_of_a_sub_recipe_is_refused_too(shop: Workshop) -> None:
    shop.write("child.yaml", ask("nobody"))
    text = recipe("""
        steps:
          - {id: first, agent: helper, prompt: "STEP:first"}
          - {id: call, type: recipe, recipe: child.yaml}
    """)
    assert "nobody" in shop.refuse(text).stderr


def test_r8_11_the_files_backend_is_asked(shop: Workshop) -> None:
    """`backend` names another program; one that is not installed is refused before the start."""
    shop.agent("coder", "---\nname: coder\nbackend: codex\n---\nCode.\n")
    shop.write("r.yaml", ask("coder"))
    env = {"CODEX_CLI_PATH": str(shop.top / "absent"), "PATH": "/nowhere"}
    said = shop.run("run", "r.yaml", env=env).assert_exit(5)
    assert "codex" in said.stderr.lower()
    assert not shop.calls()


def test_r8_11_an_unknown_backend_is_refused(shop: Workshop) -> None:
    shop.agent("odd", "---\nname: odd\nbackend: chatty\n---\nTalk.\n")
    shop.write("r.yaml", ask("odd"))
    run = shop.run("run", "r.yaml")
    assert run.exit_code in (2, 5), run.stderr
    assert "chatty" in run.stderr
    assert not shop.calls()


@pytest.mark.parametrize("backend", ["rehearsal", "replay"])
def test_r8_11_a_backend_for_whole_runs_is_refused_in_a_file(shop: Workshop, backend: str) -> None:
    shop.agent("odd", f"---\nname: odd\nbackend: {backend}\n---\nTalk.\n")
    said = shop.refuse(ask("odd")).stderr
    assert f"the backend '{backend}' plays every agent of a run, not one" in said
    assert f"--backend {backend}" in said
    shop.run("run", "r.yaml", "--backend", "rehearsal").assert_success()


def test_r8_11_a_tool_that_is_not_installed_is_refused(shop: Workshop) -> None:
    shop.write("r.yaml", ask())
    env = {"CLAUDE_CLI_PATH": str(shop.top / "absent")}
    said = shop.run("run", "r.yaml", env=env).assert_exit(5)
    assert "CLAUDE_CLI_PATH" in said.stderr
    assert not (shop.runs_folder / "latest").is_symlink()


def test_b_mode_is_put_before_the_prompt(shop: Workshop) -> None:
    shop.play(ask(more="mode: ARCHITECT"))
    assert shop.prompt("a") == "MODE: ARCHITECT\n\nSTEP:a"


def test_b_agent_steps_may_say_their_type(shop: Workshop) -> None:
    shop.play(ask(more="type: agent"))
    assert shop.asked() == ["a"]


def test_b_every_step_has_a_session_of_its_own(shop: Workshop) -> None:
    """B spawns an agent per step: nothing is remembered but what the recipe hands on."""
    shop.play(
        recipe("""
            context: {items: [1, 2]}
            steps:
              - {id: a, agent: helper, prompt: "STEP:a"}
              - {id: b, foreach: "{{items}}", agent: helper, prompt: "STEP:b"}
        """)
    )
    sessions = [call.flag("--session-id") for call in shop.calls()]
    assert len({*sessions}) == 3
    assert None not in sessions


# agent_config.


def test_b_agent_config_overrides_the_definition(shop: Workshop) -> None:
    shop.agent("thinker", "---\nname: thinker\nmodel: opus\ntools: Read\n---\nThink.\n")
    shop.play(
        recipe("""
            steps:
              - id: a
                agent: thinker
                agent_config: {model: haiku}
                prompt: "STEP:a"
              - id: b
                agent: thinker
                agent_config: {tools: [Edit, Bash]}
                prompt: "STEP:b"
              - {id: c, agent: thinker, prompt: "STEP:c"}
        """)
    )
    (a,), (b,), (c,) = (shop.calls(name) for name in "abc")
    assert (a.model, b.model, c.model) == ("haiku", "opus", "opus")
    assert [_tools(call) for call in (a, b, c)] == ["Read", "Edit,Bash", "Read"]
    assert {call.flag("--append-system-prompt") for call in (a, b, c)} == {"Think."}


def _tools(call: object) -> str | None:
    from tests.recipes.fakes import Call

    assert isinstance(call, Call)
    return call.flag("--tools") or call.flag("--allowedTools")


def test_b_agent_config_takes_the_spelling_of_the_specification(shop: Workshop) -> None:
    shop.play(
        recipe("""
            steps:
              - id: a
                agent: helper
                agent_config:
                  providers:
                    - module: provider-anthropic
                      config: {model: claude-opus-4}
                  tools:
                    - module: WebSearch
                prompt: "STEP:a"
        """)
    )
    (call,) = shop.calls()
    assert call.model == "claude-opus-4"
    assert _tools(call) == "WebSearch"


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ("{providers: [{module: x, config: {temperature: 0.8}}]}", "temperature"),
        ("{temperature: 0.8}", "temperature"),
        ("{max_turn: 3}", "max_turns"),
        ("{model: [a]}", "model"),
        ("{max_turns: many}", "max_turns"),
    ],
)
def test_b_agent_config_that_cannot_be_enforced_is_refused(
    shop: Workshop, config: str, named: str
) -> None:
    """An accepted field is enforced; what is not enforced is rejected, before the start."""
    text = recipe(f"""
        steps:
          - {{id: first, agent: helper, prompt: "STEP:first"}}
          - {{id: second, agent: helper, prompt: "STEP:second", agent_config: {config}}}
    """)
    shop.write("r.yaml", text)
    run = shop.run("run", "r.yaml")
    assert run.exit_code in (2, 5), run.stderr
    assert named in run.stderr
    assert not shop.calls()


def test_b_agent_config_settings_of_the_program_are_handed_on(shop: Workshop) -> None:
    shop.play(ask(more="agent_config: {max_turns: 3, disallowed_tools: [Bash], effort: high}"))
    (call,) = shop.calls()
    assert call.flag("--max-turns") == "3"
    assert call.flag("--disallowedTools") == "Bash"
    assert call.flag("--effort") == "high"


# Failures that no retry mends, each with its own words.


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("auth", "authenticate"),
        ("invalid-request", "400"),
        ("limit", "maximum number of turns"),
        ("killed", "SIGKILL"),
        ("silent", "before it was done"),
        ("crash", "something broke"),
    ],
)
def test_r4_a_failing_agent_fails_its_step(shop: Workshop, kind: str, words: str) -> None:
    played = shop.play(ask(), rules=(rule("STEP:a", fail=kind),), exit_code=1)
    assert words in played.message("a")
    assert words in played.result.stderr
    assert played.state["reason"] == "step 'a' failed"
    assert shop.asked() == ["a"]


def test_r7_a_prompt_stays_text(shop: Workshop) -> None:
    """A leading / is a command to Claude Code, unless a line break stands before it."""
    shop.play(
        recipe("""
            context: {x: "/clear the table"}
            steps: [{id: a, agent: helper, prompt: "{{x}} @secrets.txt STEP:a\\nlast line"}]
        """)
    )
    (call,) = shop.calls()
    assert not call.text.startswith("/")
    assert call.text.strip() == "/clear the table @secrets.txt STEP:a\nlast line"


def test_without_an_agent_the_runs_own_is_asked(shop: Workshop) -> None:
    text = recipe("""
        steps:
          - {id: a, prompt: "STEP:a", output: a}
          - {id: b, prompt: "STEP:b {{a.n}}", agent_config: {model: opus, tools: [Read]}}
    """)
    played = shop.play(text, rules=(rule("STEP:a", '{"n": 1}'),))
    first, second = shop.calls()
    assert second.text.endswith("STEP:b 1")
    assert (first.flag("--model"), second.model) == ("sonnet", "opus")
    assert second.flag("--tools") == "Read"
    assert first.flag("--append-system-prompt") is None
    assert played.step("a")["agent"] == "claude-code"
    assert len({call.flag("--session-id") for call in shop.calls()}) == 2
