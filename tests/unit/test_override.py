"""Flags as functions from program to program: each changes its own thing and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orchestrate.agent_names import own_name
from orchestrate.app.given.settings import FLAGS
from orchestrate.errors import ConfigError
from orchestrate.plan import override
from orchestrate.plan.check import check_program
from orchestrate.plan.expr import Const, MapExpr
from orchestrate.plan.nodes import (
    FAILED,
    OK,
    Abort,
    Each,
    Finish,
    Goto,
    Leave,
    Node,
    Program,
    plan_of,
    target_of,
)
from orchestrate.plan.override import OnError
from orchestrate.plan.settings import Retry
from tests.unit.plans import every_kind

PROGRAM = every_kind()
Change = Callable[[Program], Program]

CHANGES: dict[str, Change] = {
    "--model": lambda p: override.with_model(p, "opus"),
    "--max-steps": lambda p: override.with_max_steps(p, 7),
    "--max-visits": lambda p: override.with_max_visits(p, 8),
    "--max-restarts": lambda p: override.with_max_restarts(p, 0),
    "--max-parallel": lambda p: override.with_max_parallel(p, 2),
    "--step-timeout": lambda p: override.with_step_timeout(p, 9.0),
    "--context": lambda p: override.with_context(p, MapExpr((("z", Const("1")),))),
    "--max-retries": lambda p: override.with_max_retries(p, 2),
    "--on-error": lambda p: override.with_on_error(p, "continue"),
}


@pytest.mark.parametrize("flag", list(CHANGES))
def test_flag_changes_only_plans_of_its_dialects(flag: str) -> None:
    before = every_kind()
    after = CHANGES[flag](PROGRAM)
    assert before == PROGRAM, "the program given must not change"
    check_program(after)
    changed = {
        old.dialect for old, new in zip(PROGRAM.plans, after.plans, strict=True) if old != new
    }
    name = flag.removeprefix("--").replace("-", "_")
    expected = {"workflow"} if name == "context" else set(FLAGS[name].dialects)
    if name == "max_visits":
        # The main plan's, and of the others those that have one: each bounds only itself.
        expected = {"workflow", "machine"}
    assert changed == expected
    assert CHANGES[flag](after) == after


def test_limits_and_defaults() -> None:
    machine = plan_of(override.with_max_steps(PROGRAM, 7), "machine.yaml")
    assert (machine.limits.max_steps, machine.limits.max_visits) == (7, 3)
    machine = plan_of(override.with_max_visits(PROGRAM, 8), "machine.yaml")
    assert (machine.limits.max_steps, machine.limits.max_visits) == (100, 8)
    machine = plan_of(override.with_max_restarts(PROGRAM, 0), "machine.yaml")
    assert machine.limits.max_restarts == 0
    machine = plan_of(override.with_model(PROGRAM, "opus"), "machine.yaml")
    assert (machine.defaults.model, machine.defaults.timeout_s) == ("opus", 86400.0)
    timed = override.with_step_timeout(PROGRAM, 9.0)
    assert {p.dialect: p.defaults.timeout_s for p in timed.plans} == {
        "machine": 9.0, "workflow": None, "recipe": 9.0,
    }  # fmt: skip
    recipe = plan_of(override.with_max_parallel(PROGRAM, 2), "r.yaml")
    assert (recipe.limits.max_parallel, recipe.limits.max_depth) == (2, 5)


def test_retries_are_a_default_that_a_steps_own_beats() -> None:
    plan = plan_of(override.with_max_retries(PROGRAM, 2), "w.yaml")
    assert plan.defaults.retry == Retry(attempts=3, delay_s=0.0, when="exit-1-or-124")
    plan = plan_of(override.with_retry_delay(override.with_max_retries(PROGRAM, 2), 250), "w.yaml")
    assert plan.defaults.retry == Retry(attempts=3, delay_s=0.25, when="exit-1-or-124")
    assert plan.blocks[0].nodes[0].retry == PROGRAM.plans[1].blocks[0].nodes[0].retry


def test_context_lays_over_the_main_plan_only() -> None:
    values = MapExpr((("who", Const("you")), ("new", Const(True))))
    after = override.with_context(PROGRAM, values)
    assert plan_of(after, "w.yaml").context.items == (
        ("who", Const("you")), ("n", Const(1.5)), ("new", Const(True)),
    )  # fmt: skip
    assert plan_of(after, "r.yaml") == plan_of(PROGRAM, "r.yaml")


def nodes(program: Program) -> dict[str, Node]:
    plan = plan_of(program, "w.yaml")
    return {node.id: node for block in plan.blocks for node in block.nodes}


def stops(program: Program) -> bool:
    loop = nodes(program)["Loop"].op
    assert isinstance(loop, Each)
    return loop.stop_on_failure


def test_on_error_continue_goes_on_and_counts() -> None:
    after = nodes(override.with_on_error(PROGRAM, "continue"))
    assert target_of(after["List"], FAILED) == Goto("Loop")
    assert target_of(after["Wait"], FAILED) == Finish("completed")
    assert {after[name].on_failure for name in ("List", "Wait", "Loop/Ask")} == {"count"}
    # A step that fails inside a loop fails its iteration; the loop goes on (rulings §9).
    assert target_of(after["Loop/Ask"], FAILED) == Leave(FAILED)
    assert not stops(override.with_on_error(PROGRAM, "continue"))


def test_on_error_stop_is_strict_flow() -> None:
    after = nodes(override.with_on_error(PROGRAM, "stop"))
    assert target_of(after["Wait"], FAILED) == Abort("failed", "step 'Wait' failed")
    assert after["Wait"].on_failure == "stop"
    assert after["List"] == nodes(PROGRAM)["List"]
    assert stops(override.with_on_error(PROGRAM, "stop"))


def test_on_error_interactive_leaves_it_to_a_person() -> None:
    after = nodes(override.with_on_error(PROGRAM, "interactive"))
    assert after["List"].on_failure == after["Wait"].on_failure == "ask"
    assert target_of(after["Wait"], FAILED) == Abort("failed", "step 'Wait' failed")


@pytest.mark.parametrize("choice", ["stop", "continue", "interactive"])
def test_on_error_leaves_handlers_and_successes_alone(choice: OnError) -> None:
    before, after = nodes(PROGRAM), nodes(override.with_on_error(PROGRAM, choice))
    assert after["Loop"].routes == before["Loop"].routes
    assert after["Loop"].on_failure == "handled"
    for name, node in before.items():
        assert target_of(after[name], OK) == target_of(node, OK)
        assert after[name].follow == node.follow


def test_backends_have_the_names_of_a_and_c() -> None:
    assert own_name("claude") == own_name("claude-code")
    assert own_name("copilot") == "github-copilot"
    for name in ("cursor", "opencode", "codex", "gemini", "qwen", "rehearsal", "human", "replay"):
        assert own_name(name) == name
    with pytest.raises(ConfigError, match="did you mean 'opencode'") as caught:
        own_name("open-code")
    assert caught.value.exit_code == 5
    assert "known: claude-code" in caught.value.hint
