"""The files that the benchmarks measure are valid definitions of the size they claim; no timing."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cases import BENCHMARKS, Row, require_c_part
from benchmarks.generate import PATTERN, definition, write_workspace
from benchmarks.measure import Sample, Subject, interleave
from orchestrate.compile import compile_file, require_program
from orchestrate.plan.nodes import Gate, main_plan
from orchestrate.workspace import open_workspace


@pytest.mark.parametrize("dialect", PATTERN)
@pytest.mark.parametrize("steps", [10, 30])
def test_generated_definition_is_valid(dialect: str, steps: int, tmp_path: Path) -> None:
    path = write_workspace(tmp_path, {dialect: (steps,)})[dialect, steps]
    compilation = compile_file(path, open_workspace(tmp_path))
    assert compilation.diagnostics == ()
    assert compilation.dialect == dialect
    plan = main_plan(require_program(compilation))
    # A recipe's loop is one step, whose body is a block of its own.
    blocks = plan.blocks[:1] if dialect == "recipe" else plan.blocks
    assert sum(not isinstance(node.op, Gate) for block in blocks for node in block.nodes) == steps


@pytest.mark.parametrize("dialect", PATTERN)
def test_definition_is_made_of_whole_turns(dialect: str) -> None:
    with pytest.raises(ValueError, match="multiple of"):
        definition(dialect, 13)
    with pytest.raises(ValueError, match="multiple of"):
        definition(dialect, 0)


def test_subjects_take_turns_and_the_first_round_is_discarded() -> None:
    order: list[str] = []

    def subject(name: str, times: list[float]) -> Subject:
        def take() -> Sample:
            order.append(name)
            return Sample(times[order.count(name) - 1], 1.0)

        return Subject(name, take)

    taken = interleave([subject("a", [99, 1, 2, 9]), subject("b", [99, 7, 5, 6])], 3)
    assert order == ["a", "b"] * 4
    assert (taken["a"].wall_s, taken["b"].wall_s) == (2, 6)


def test_row_is_over_only_beyond_its_reach() -> None:
    assert not Row("ours", "theirs", "ms", 15, 10, reach=1.5).is_over
    assert Row("ours", "theirs", "ms", 16, 10, reach=1.5).is_over
    assert not Row("ours", "theirs", "ms", 90, 10).is_over


def test_every_benchmark_says_what_it_measures() -> None:
    require_c_part()
    assert all(benchmark.run.__doc__ for benchmark in BENCHMARKS.values())
