"""The modules that mutants are made of, and the tests of each, the quickest first."""

from __future__ import annotations

from pathlib import Path

PROJECT = Path(__file__).parents[2]


def _tests(folder: str, names: str) -> tuple[str, ...]:
    return tuple(f"tests/{folder}/test_{name}.py" for name in names.split())


_KEEPER = _tests(
    "process",
    "capture journal protocol client connection tree_parts frugal full_disk running trees"
    " own_attempt wake survival",
)
_FOLD = _tests("state", "routing apply codec")
_ENGINE = _tests("engine", "step ask scheduler")
# Steps that start programs: whole runs of workflows say most about them.
_COMMANDS = _tests("acceptance", "at_flow at_capture at_values at_dependencies at_waiting")

# Whole packages; modules that have tests of their own are named below.
_PACKAGES = {
    "orchestrate/state": _FOLD,
    "orchestrate/engine": _ENGINE,
}
_GROUPS: dict[tuple[str, ...], str] = {
    _KEEPER: "execute/keeper: boot capture client connections facts guardian journal launch"
    " orphans own_attempt protocol server starter tree warden watch watch_loop",
    (*_ENGINE, *_COMMANDS): "engine: checks debugging first_start lost_attempts masked_keys"
    " programs runtime stop versions whole_output;"
    "engine/ops: agent_program command declared wait;"
    "state: clock logbook store values",
    _tests("state", "durable journal kills"): "state: durable",
    _tests("state", "locks runs"): "state: locks",
    _tests("state", "runs"): "state: delete runs users",
    _tests("state", "journal"): "state: journal",
    _tests("state", "backups"): "state: backups",
    _tests("state", "times"): "state: times",
    (*_tests("engine", "scheduler"), *_tests("truth", "truth_23_decisions")): "state: ballots",
    _tests("truth", "truth_01_addresses"): "state: address",
    _tests("cli", "kept_plan"): "state: plan_file",
    _tests("process", "masking"): "execute: masking",
    _tests("process", "journal protocol"): "execute: flat_json",
    _tests("engine", "confine patterns"): "engine: confine",
    _tests("engine", "patterns"): "engine: patterns",
    _tests("engine", "capture"): "engine: capture",
    _tests("engine", "evaluate"): "engine: evaluate",
    _tests("engine", "inject"): "engine: inject",
    _tests("engine", "outputs"): "engine: outputs",
    _tests("engine", "head"): ": git_head",
    _tests("truth", "truth_07_schemas"): "engine: schemas",
    _tests("truth", "truth_10_secrets truth_11_masking"): "engine: secrets",
}


def _modules_of(package: str) -> list[str]:
    found = (PROJECT / package).rglob("*.py")
    return sorted(str(path.relative_to(PROJECT)) for path in found if path.name != "__init__.py")


def _named(listed: str) -> list[str]:
    found = []
    for folder, _, names in (part.partition(": ") for part in listed.split(";")):
        found += [str(Path("orchestrate", folder, f"{name}.py")) for name in names.split()]
    return found


TESTS: dict[str, tuple[str, ...]] = {
    module: tests for package, tests in _PACKAGES.items() for module in _modules_of(package)
} | {module: tests for tests, listed in _GROUPS.items() for module in _named(listed)}
