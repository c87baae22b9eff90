"""§6: a rehearsal starts and changes nothing, and its answers have what later steps read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrate.testing import Project
from tests.recipes.fakes import Workshop, recipe

READERS = recipe("""
    context: {score: 0}
    steps:
      - {id: look, prompt: "Look", output: found, parse_json: true}
      - {id: fix, condition: "{{found.severity}} == 'critical'", prompt: "{{found.where.file}}"}
      - {id: each, foreach: "{{found.files}}", prompt: "{{item}}", output: one}
      - id: polish
        while_condition: "{{score}} < 8"
        max_while_iterations: 3
        while_steps: [{id: rate, prompt: "Rate", output: score}]
      - {id: free, prompt: "{{one}}", output: text, parse_json: true}
""")


def test_a_rehearsal_finds_every_field_it_needs(shop: Workshop) -> None:
    played = shop.play(READERS, "--backend", "rehearsal")
    assert played.state["status"] == "completed"
    assert played.skipped() == {}, "the condition was met, so that the step was rehearsed"
    found = played.context["found"]
    assert found["severity"] == "critical"
    assert isinstance(found["where"]["file"], str)
    assert played.context["score"] == 8
    assert len(played.state["steps"]["polish"]) == 1
    assert shop.calls() == []


CONDITIONS = """
name: conditions
description: All kinds of conditions
version: "1.0.0"
context: {done: false, left: 3}
steps:
  - {id: look, prompt: Look, output: found}
  - {id: least, condition: "{{found.size}} >= 3 and {{found.age}} < 9", prompt: A}
  - {id: other, condition: "{{found.kind}} != 'none' and not {{found.empty}}", prompt: B}
  - {id: among, condition: "{{found.level}} in ['high'] and 'x' in {{found.tags}}", prompt: C}
  - {id: each, foreach: "{{found.files}}", as: file, prompt: "{{file.name}}: {{file.text}}"}
  - id: shrink
    while_condition: "{{left}} > 0"
    update_context: {left: "{{rest.count}}"}
    while_steps: [{id: take, prompt: Take one, output: rest}]
  - {id: all, foreach: "{{found.files}}", as: file, prompt: P, collect: notes}
  - {id: use, foreach: "{{notes}}", as: note, prompt: "{{note.title}}"}
  - {id: call, type: recipe, recipe: inner.yaml, context: {given: "{{found}}"}, output: came}
  - {id: last, prompt: "{{came.verdict.word}}"}
"""
INNER = """
name: inner
description: Is given a value and gives one back
version: "1.0.0"
context: {given: {}}
steps:
  - {id: judge, prompt: "{{given.deep.down}}", output: verdict}
"""


def rehearsed(tmp_path: Path, files: dict[str, str], *flags: str, code: int = 0) -> dict[str, Any]:
    project = Project(tmp_path, files)
    before = sorted(path.name for path in tmp_path.iterdir())
    first = next(iter(files))
    project.run("run", first, "--backend", "rehearsal", *flags).assert_exit(code)
    assert [n for n in sorted(p.name for p in tmp_path.iterdir()) if n != ".orchestrate"] == before
    return project.latest_state


def test_conditions_loops_and_calls_get_values_that_lead_on(tmp_path: Path) -> None:
    state = rehearsed(tmp_path, {"c.yaml": CONDITIONS, "inner.yaml": INNER})
    assert state["status"] == "completed"
    assert state["skipped_steps"] == []
    assert len(state["steps"]["shrink"]) == 1


WORKFLOW = """
version: "1.3"
name: everything
providers:
  own: {command: [no-such-program, "${PROMPT}"]}
steps:
  - {name: List, command: [touch, listed], output_capture: lines}
  - {name: Read, command: [no-such-program], output_capture: json}
  - name: Each
    for_each:
      items_from: steps.List.lines
      as: file
      on_item_complete: {success: {move_to: done}}
      steps:
        - {name: Write, provider: claude, input_file: "in/${file}", output_file: "out/${file}"}
  - {name: Wait, wait_for: {glob: "never/*", timeout_sec: 3600}}
  - name: Judge
    provider: own
    input_file: none.md
    depends_on: {required: [nowhere.txt]}
    output_capture: json
    output_require: [{pointer: /ok, equals: true}]
  - name: Good
    when: {equals: {left: "${steps.Read.json.state}", right: ready}}
    command: [no-such-program, "${steps.Judge.json.why}"]
  - {name: Other, provider: unknown-provider, input_file: none.md}
"""


def test_a_workflow_is_rehearsed_with_its_providers(tmp_path: Path) -> None:
    state = rehearsed(tmp_path, {"w.yaml": WORKFLOW})
    assert state["status"] == "completed"
    statuses = {name: step.get("status") for name, step in state["steps"].items() if name != "Each"}
    assert set(statuses.values()) == {"completed"}
    assert state["steps"]["Each"][0]["lifecycle"]["action_applied"] is False


MACHINE = """
id: m
label: M
description: Commands and a gate
inputs: {}
initialStep: work
steps:
  work:
    prompt: Work.
    check: {command: [touch, checked], rounds: 1}
    produces: [never.txt]
    outcomes: [complete, other]
    onOutcome:
      complete: {nextStep: test}
      other: {action: exit, reason: gave-up, status: failed}
  test:
    command: [touch, tested]
    exits: {0: fine, 7: flaky, "*": bad}
    onOutcome:
      fine: {nextStep: ask}
      flaky: {nextStep: test}
      bad: {action: exit, reason: bad, status: failed}
  ask:
    approval: {prompt: "Go on?", timeout: 1h}
    onOutcome:
      approved: {action: exit, reason: done}
      denied: {action: exit, reason: denied, status: failed}
"""


def test_a_machines_commands_checks_and_gates_pass_unrun(tmp_path: Path) -> None:
    state = rehearsed(tmp_path, {"m.yaml": MACHINE})
    assert (state["status"], state["reason"]) == ("completed", "done")
    assert state["engine"]["approvals"][0]["decided_by"] == "rehearsal"


@pytest.mark.parametrize(
    ("script", "reason", "code"),
    [
        ("test: [flaky, fine]", "done", 0),
        ("test: [bad]", "bad", 1),
        ("ask: [denied]", "denied", 1),
        ("'work:check-1': [failed]", "done", 0),
        ("'work:check-1': [failed]\n'work:check-2': [failed]", "check-failed:work", 3),
        ("work: [{outcome: other, otherDescription: why}]", "gave-up", 1),
    ],
)
def test_a_script_says_how_commands_and_gates_end(
    tmp_path: Path, script: str, reason: str, code: int
) -> None:
    (tmp_path / "s.yaml").write_text(script)
    flags = ("--script", str(tmp_path / "s.yaml"))
    state = rehearsed(tmp_path, {"m.yaml": MACHINE}, *flags, code=code)
    assert state["reason"] == reason


def test_a_script_can_stop_at_a_gate(tmp_path: Path) -> None:
    project = Project(tmp_path, {"m.yaml": MACHINE, "s.yaml": "ask: [waits]"})
    flags = ("--backend", "rehearsal", "--script", "s.yaml")
    project.run("run", "m.yaml", *flags).assert_exit(6)
    project.run("approve").assert_success()
    refused = project.run("resume", "--backend", "claude-code").assert_exit(2)
    assert "a rehearsal cannot become a real run" in refused.stderr
    project.run("resume").assert_success()
    assert "REHEARSAL: no agent is asked" in project.run("status").stdout


def test_commands_run_only_when_that_is_asked_for(tmp_path: Path) -> None:
    project = Project(tmp_path, {"m.yaml": MACHINE.replace("    produces: [never.txt]\n", "")})
    told = project.run("run", "m.yaml", "--backend", "rehearsal", "--rehearse-commands")
    told.assert_success()
    assert told.stderr.count("REHEARSAL: commands are run, but no agent is asked") == 2
    assert {"checked", "tested"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("flag", ["--rehearse-commands", "--cover"])
def test_its_flags_need_the_backend(tmp_path: Path, flag: str) -> None:
    project = Project(tmp_path, {"m.yaml": MACHINE})
    told = project.run("run", "m.yaml", flag).assert_exit(2)
    assert f"{flag} needs --backend rehearsal" in told.stderr


# Every route.


def covered(tmp_path: Path, text: str, *flags: str, code: int = 0) -> dict[str, Any]:
    project = Project(tmp_path, {"f.yaml": text})
    words = ("run", "f.yaml", "--backend", "rehearsal", "--cover", *flags)
    found: dict[str, Any] = project.run(*words, "--json").assert_exit(code).json()
    assert not (tmp_path / ".orchestrate").exists(), "it records no run"
    return found


def missed(found: dict[str, Any]) -> set[tuple[str, str]]:
    return {(route["step"], route["outcome"]) for route in found["missed"]}


def test_cover_takes_every_route_of_a_machine(tmp_path: Path) -> None:
    found = covered(tmp_path, MACHINE)
    taken = {(route["step"], route["outcome"]) for route in found["taken"]}
    assert missed(found) == set()
    assert taken >= {
        ("work", "other"), ("work:check-1", "failed"), ("work:check-2", "failed"),
        ("work:round-1", "complete"), ("test", "flaky"), ("test", "bad"), ("ask", "denied"),
    }  # fmt: skip
    assert found["failed"] == []


def test_cover_names_what_guardrails_keep_from_being_taken(tmp_path: Path) -> None:
    deep = MACHINE.replace("initialStep:", "guardrails: {maxTotalSteps: 1}\ninitialStep:")
    found = covered(tmp_path, deep)
    assert missed(found) == {
        *(("ask", outcome) for outcome in ("approved", "denied")),
        *(("test", outcome) for outcome in ("fine", "flaky", "bad")),
    }
    where = {(route["file"], route["line"]) for route in found["missed"]}
    assert where == {("f.yaml", 16), ("f.yaml", 23)}


COVERED = """
name: covered
description: Conditions both ways, and one that cannot hold
version: "1.0.0"
context: {mode: fast}
steps:
  - {id: look, prompt: Look, output: found}
  - {id: fix, condition: "{{found.bad}} == 'yes'", prompt: Fix, on_error: continue}
  - {id: more, condition: "{{found.size}} > 3 and {{found.bad}} == 'no'", prompt: More}
  - {id: slow, condition: "{{mode}} == 'slow'", prompt: Slowly}
"""


def test_cover_gives_conditions_the_values_that_they_tell_apart(tmp_path: Path) -> None:
    found = covered(tmp_path, COVERED)
    assert missed(found) == {("slow", "passed")}
    assert missed(covered(tmp_path, COVERED, "--context", "mode=slow")) == {("slow", "skipped")}


JUDGED = """
version: "1.4"
name: judged
steps:
  - name: Judge
    provider: claude
    prompt: Judge.
    output_capture: json
    output_schema: verdict.json
    output_require: [{pointer: /sure, type: boolean}, {pointer: /parts/0/name}]
  - {name: Good, command: [ls], when: {equals: {left: "${steps.Judge.json.verdict}", right: good}}}
  - {name: Bad, command: [ls], when: {equals: {left: "${steps.Judge.json.verdict}", right: bad}}}
  - {name: Odd, command: [ls], when: {equals: {left: "${steps.Judge.json.verdict}", right: odd}}}
  - {name: Ask, command: [ls], when: {equals: {left: "${steps.Judge.json.sure}", right: "false"}}}
  - {name: Each, for_each: {items_from: steps.Judge.json.parts, steps: [{name: In, command: [ls]}]}}
"""


def test_cover_takes_other_answers_that_the_checks_of_the_output_allow(tmp_path: Path) -> None:
    schema = '{"required": ["verdict"], "properties": {"verdict": {"enum": ["good", "bad"]}}}'
    (tmp_path / "verdict.json").write_text(schema)
    found = covered(tmp_path, JUDGED)
    assert missed(found) == {("Odd", "passed")}


BY_FILES = """
version: "1.4"
name: by-files
steps:
  - {name: Plan, provider: claude, prompt: Plan., when: {not_exists: plan.md}}
  - {name: Read, command: [cat, plan.md], when: {exists: plan.md}}
  - name: Build
    repeat:
      until: {exists: built}
      max: 2
      steps: [{name: Make, command: [touch, built]}]
  - {name: Tell, provider: claude, prompt: Tell.}
"""


def test_files_that_no_step_has_made_lead_on(tmp_path: Path) -> None:
    found = covered(tmp_path, BY_FILES)
    assert missed(found) == set()
    assert found["failed"] == []
    state = rehearsed(tmp_path, {"w.yaml": BY_FILES})
    assert state["status"] == "completed"
    assert len(state["steps"]["Build"]) == 1
    assert [state["steps"][name]["status"] for name in ("Plan", "Read")] == ["completed"] * 2
    # Commands that are run make files: then it counts which there are.
    project = Project(tmp_path)
    project.run("run", "w.yaml", "--backend", "rehearsal", "--rehearse-commands").assert_success()
    assert project.latest_state["steps"]["Read"]["status"] == "skipped"


def test_cover_fails_where_a_step_fails_by_itself(tmp_path: Path) -> None:
    """What the first step gives is skipped with it."""
    text = COVERED.replace("- {id: look,", "- {id: look, condition: \"{{mode}} == 'slow'\",")
    found = covered(tmp_path, text, code=1)
    assert [failed["step"] for failed in found["failed"]] == ["fix", "more"]
    assert "{{found.bad}}" in found["failed"][0]["message"]


BEHIND_LOOPS = {
    "for_each": """
version: "1.4"
steps:
  - name: All
    for_each:
      items: [a, b, c]
      parallel: 2
      steps:
        - {name: Write, provider: claude, prompt: "Write ${item}"}
        - {name: Check, provider: claude, prompt: "Check ${steps.Write.output}"}
  - {name: Then, command: [make, test]}
""",
    "repeat": """
version: "1.4"
steps:
  - name: Until
    repeat:
      until: {equals: {left: "${steps.Test.exit_code}", right: "0"}}
      max: 3
      steps:
        - {name: Write, provider: claude, prompt: Write}
        - {name: Test, command: [make, test]}
  - {name: Then, provider: claude, prompt: Commit}
""",
    "while_steps": """
name: covered
description: A step behind a loop of two
version: "1.0.0"
context: {score: 0}
steps:
  - id: polish
    while_condition: "{{score}} < 8"
    while_steps:
      - {id: write, prompt: Write, output: text}
      - {id: rate, prompt: "Rate {{text}}", output: score}
  - {id: then, type: bash, command: make test}
""",
}


@pytest.mark.parametrize("shape", BEHIND_LOOPS)
def test_cover_does_not_let_an_item_fail_to_get_behind_its_loop(tmp_path: Path, shape: str) -> None:
    """The failure of an item is the shortest way out of its loop, but the run ends with it."""
    assert missed(covered(tmp_path, BEHIND_LOOPS[shape])) == set()


def test_cover_says_it_for_people(tmp_path: Path) -> None:
    project = Project(tmp_path, {"m.yaml": MACHINE})
    told = project.run("run", "m.yaml", "--backend", "rehearsal", "--cover").assert_success()
    assert "routes taken in" in told.stdout
    assert "these cannot be taken" not in told.stdout
    words = ("run", "m.yaml", "--backend", "rehearsal", "--cover")
    project.write("s.yaml", "test: [bad]")
    refused = project.run(*words, "--script", "s.yaml").assert_exit(2)
    assert "--cover and --script exclude each other" in refused.stderr


# Over dialects.

GIVER = """
name: giver
description: Gives what its caller reads
version: "1.0.0"
context: {given: y}
outputs: {verdict: "{{found}}"}
steps:
  - {id: run, type: bash, command: [no-such-program], output: data, parse_json: true}
  - {id: look, prompt: "{{given}} {{data.size}}", output: found}
  - {id: sure, type: approval, approval: {prompt: "Sure?", timeout: 1h}}
"""
CALLERS = {
    "workflow": """
version: "1.4"
name: caller
steps:
  - {name: Rec, call: giver.yaml, with: {given: x}}
  - {name: Use, command: [no-such-program, "${steps.Rec.outputs.verdict.word}"]}
""",
    "machine": """
id: caller
label: Caller
description: d
inputs: {}
initialStep: sub
steps:
  sub:
    call: giver.yaml
    with: {given: a}
    onOutcome:
      completed: {nextStep: work}
      failed: {action: exit, reason: sub-failed, status: failed}
  work:
    prompt: "Say {{steps.sub.outputs.verdict.word}}."
    outcomes: [done, other]
    onOutcome:
      done: {action: exit, reason: done}
      other: {action: exit, reason: other}
""",
    "recipe": """
name: caller
description: d
version: "1.0.0"
steps:
  - {id: sub, type: recipe, recipe: giver.yaml, context: {given: b}, output: came}
  - {id: use, prompt: "{{came.outputs.verdict.word}}"}
""",
}


@pytest.mark.parametrize("dialect", CALLERS)
def test_what_a_called_file_gives_has_what_its_caller_reads(tmp_path: Path, dialect: str) -> None:
    files = {"caller.yaml": CALLERS[dialect], "giver.yaml": GIVER}
    assert rehearsed(tmp_path, files)["status"] == "completed"


# A called file that fails, or ends for a reason that its caller has a way for.

SUB = """
id: sub
label: Sub
description: d
initialStep: try
steps:
  try:
    prompt: Try.
    outcomes: [done, nothing, other]
    onOutcome:
      done: {action: exit, reason: fine}
      nothing: {action: exit, reason: nothing-to-do}
      other: {action: exit, reason: gave-up, status: failed}
"""
HANDLING = {
    "machine": """
id: top
label: Top
description: d
initialStep: sub
steps:
  sub:
    call: sub.yaml
    outcomes: [completed, failed, nothing-to-do]
    onOutcome:
      completed: {nextStep: again}
      nothing-to-do: {nextStep: again}
      failed: {action: exit, reason: sub-failed, status: failed}
  again:
    call: sub.yaml
    outcomes: [completed, failed, nothing-to-do]
    onOutcome:
      completed: {action: exit, reason: done}
      nothing-to-do: {action: exit, reason: nothing}
      failed: {action: exit, reason: sub-failed, status: failed}
""",
    "recipe": """
name: top
description: d
version: "1.0.0"
steps:
  - {id: sub, type: recipe, recipe: sub.yaml, on_error: continue}
  - {id: again, type: recipe, recipe: sub.yaml, on_error: skip_remaining}
""",
    "workflow": """
version: "1.4"
name: top
steps:
  - {name: sub, call: sub.yaml, on: {failure: {goto: again}}}
  - {name: again, call: sub.yaml, on: {failure: {goto: _end}}}
""",
}


@pytest.mark.parametrize("dialect", HANDLING)
def test_cover_lets_a_call_end_in_every_way(tmp_path: Path, dialect: str) -> None:
    project = Project(tmp_path, {"f.yaml": HANDLING[dialect], "sub.yaml": SUB})
    words = ("run", "f.yaml", "--backend", "rehearsal", "--cover", "--json")
    found = project.run(*words).assert_success().json()
    assert (found["missed"], found["failed"]) == ([], [])
    taken = {(route["step"], route["outcome"]) for route in found["taken"]}
    own = ("completed", "nothing-to-do") if dialect == "machine" else ("passed",)
    for step in ("sub", "again"):
        assert taken >= {(step, outcome) for outcome in ("failed", *own)}


@pytest.mark.parametrize("dialect", HANDLING)
def test_a_script_may_let_a_call_fail(tmp_path: Path, dialect: str) -> None:
    """Then nothing of what it calls is gone through."""
    project = Project(tmp_path, {"f.yaml": HANDLING[dialect], "sub.yaml": SUB})
    project.write("s.yaml", "sub: [failed]\nagain: [failed]")
    words = ("run", "f.yaml", "--backend", "rehearsal", "--script", "s.yaml")
    project.run(*words).assert_exit(1 if dialect == "machine" else 0)
    sub = project.latest_state["steps"]["sub"]
    assert (sub["status"], sub.get("steps")) == ("failed", None)
