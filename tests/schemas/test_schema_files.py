"""The schema files are valid, current, fully described, and mean what they say."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from orchestrate.source.advice import advice, intended_field

FOLDER = Path(__file__).resolve().parents[2] / "schemas"
AUTHORED = ("machine", "recipe", "workflow")
NAMES = (*AUTHORED, "state", "status", "qa_verdict", "config", "fleet", "agent")
SCHEMAS: dict[str, dict[str, Any]] = {
    name: json.loads((FOLDER / f"{name}.schema.json").read_text("utf-8")) for name in NAMES
}

# fmt: off
PLAIN = {
    "$schema", "$id", "$ref", "title", "description", "examples", "default", "x-since", "x-hint",
    "type", "enum", "const", "pattern", "minLength", "maxLength", "minimum", "maximum",
    "exclusiveMinimum", "minItems", "maxItems", "uniqueItems", "minProperties", "required",
}
# fmt: on
MAPS = {"$defs", "properties", "patternProperties"}
SINGLES = {"items", "additionalProperties", "propertyNames", "not", "if", "then", "else"}
LISTS = {"anyOf", "allOf"}

Spot = tuple[str, dict[str, Any]]


def walk(schema: dict[str, Any], path: str = "") -> Iterator[Spot]:
    """Give every schema inside a schema, itself first, with its place."""
    yield path, schema
    for keyword, value in schema.items():
        if keyword in MAPS:
            children = value.items()
        elif keyword in LISTS:
            children = enumerate(value)
        elif keyword in SINGLES and isinstance(value, dict):
            children = [("", value)]
        else:
            continue
        for key, child in children:
            yield from walk(child, f"{path}/{keyword}/{key}")


def properties(name: str) -> list[Spot]:
    """List every property that a schema defines, at every level."""
    return [
        (f"{path}.{key}", schema)
        for path, parent in walk(SCHEMAS[name])
        for key, schema in parent.get("properties", {}).items()
    ]


def validator(name: str, part: dict[str, Any] | None = None) -> Draft202012Validator:
    """Make a validator for a schema, or for a part of it that may use its definitions."""
    whole = SCHEMAS[name]
    if part is None:
        return Draft202012Validator(whole)
    return Draft202012Validator(part | {"$defs": whole.get("$defs", {})})


def accepts(name: str, value: object) -> bool:
    """Tell whether a whole document is valid."""
    return bool(validator(name).is_valid(value))


def test_the_folder_holds_exactly_these_schemas() -> None:
    assert {path.name for path in FOLDER.glob("*.json")} == {f"{n}.schema.json" for n in NAMES}


@pytest.mark.parametrize("name", NAMES)
class TestEverySchema:
    def test_is_a_valid_draft_2020_12_schema(self, name: str) -> None:
        assert SCHEMAS[name]["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
        Draft202012Validator.check_schema(SCHEMAS[name])

    def test_names_no_host(self, name: str) -> None:
        assert SCHEMAS[name]["$id"] == f"orchestrate:schema/{name}"

    def test_uses_only_keywords_that_our_checker_compiles(self, name: str) -> None:
        known = PLAIN | MAPS | SINGLES | LISTS
        unknown = {(p, k) for p, schema in walk(SCHEMAS[name]) for k in schema if k not in known}
        assert not unknown

    def test_additional_properties_are_false_or_a_schema(self, name: str) -> None:
        for path, schema in walk(SCHEMAS[name]):
            value = schema.get("additionalProperties", False)
            assert value is False or isinstance(value, dict), path

    def test_references_are_local_and_resolve(self, name: str) -> None:
        targets = {f"#/$defs/{key}" for key in SCHEMAS[name].get("$defs", {})}
        used = {schema["$ref"] for _, schema in walk(SCHEMAS[name]) if "$ref" in schema}
        assert used == targets, "a reference leads nowhere, or a definition is never used"

    def test_every_property_is_described_with_examples(self, name: str) -> None:
        assert properties(name)
        for path, schema in properties(name):
            assert schema.get("description", "").strip().endswith("."), path
            assert schema.get("examples"), path

    def test_every_example_and_default_is_valid(self, name: str) -> None:
        for path, schema in walk(SCHEMAS[name]):
            check = validator(name, schema)
            defaults = [schema["default"]] if "default" in schema else []
            for value in schema.get("examples", []) + defaults:
                errors = [error.message for error in check.iter_errors(value)]
                assert not errors, f"{path}: {value!r}: {errors}"

    def test_a_default_is_told_in_the_description(self, name: str) -> None:
        for path, schema in properties(name):
            if "default" in schema and isinstance(schema["default"], (str, int, float)):
                said = schema["description"].lower()
                assert "default" in said, path
                assert str(schema["default"]).lower() in said, path

    def test_patterns_mean_the_same_in_python_and_ecmascript(self, name: str) -> None:
        for path, schema in walk(SCHEMAS[name]):
            pattern = schema.get("pattern", "^")
            re.compile(pattern)
            assert pattern.startswith("^"), path
            assert not re.search(r"\\[dwbAZ]", pattern), f"{path}: differs between the two"

    def test_names_refuse_a_final_newline(self, name: str) -> None:
        for path, schema in properties(name):
            pattern = schema.get("pattern") or schema.get("anyOf", [{}])[-1].get("pattern", "")
            if pattern.endswith("$(?!\\n)"):
                for value in schema["examples"]:
                    if not value or not isinstance(value, str):
                        continue
                    assert not validator(name, schema).is_valid(value + "\n"), path


@pytest.mark.parametrize("name", [name for name in NAMES if name != "state"])
def test_objects_of_fixed_shape_refuse_unknown_keys(name: str) -> None:
    for path, schema in walk(SCHEMAS[name]):
        if "properties" in schema and not path.endswith("$defs/include"):
            assert schema.get("additionalProperties") is False, path


def test_version_gates() -> None:
    gates = {
        name: {
            path.rpartition(".")[2]: s["x-since"] for path, s in properties(name) if "x-since" in s
        }
        for name in NAMES
    }
    assert gates.pop("workflow") == {
        "inject": "1.1.1",
        "approval": "1.4",
        "check": "1.4",
        "produces": "1.4",
        "on_item_complete": "1.2",
        "effect": "1.4",
        "output_schema": "1.3",
        "output_require": "1.3",
        "inputs": "1.4",
        "secrets": "1.4",
        "limits": "1.4",
        "outputs": "1.4",
        "call": "1.4",
        "with": "1.4",
        "prompt": "1.4",
        "session": "1.4",
        "spread": "1.4",
        "repeat": "1.4",
        "parallel": "1.4",
    }
    assert not any(gates.values())


def values(name: str) -> list[Spot]:
    """List every schema that stands for a value: of a property, a list item or a map entry."""
    found = properties(name)
    for path, schema in walk(SCHEMAS[name]):
        for keyword in ("items", "additionalProperties"):
            if isinstance(schema.get(keyword), dict):
                found.append((f"{path}/{keyword}", schema[keyword]))
    return [spot for spot in found if "$defs/include" not in spot[0]]


@pytest.mark.parametrize("name", AUTHORED)
@pytest.mark.parametrize(
    "include",
    [
        {"$include": "shared/part.yaml"},
        {"$ref": "part.json#/a/b"},
        {"$include": ["a.yaml", "b.yaml#/x"], "anything": None, "else": {"deep": [1]}},
    ],
)
def test_any_value_may_be_an_include(name: str, include: dict[str, Any]) -> None:
    assert accepts(name, include)
    for path, schema in values(name):
        assert validator(name, schema).is_valid(include), path


@pytest.mark.parametrize("name", AUTHORED)
@pytest.mark.parametrize("target", [[], "", 7, None, [1], ["a.yaml", ""], {"path": "a.yaml"}])
def test_an_include_needs_targets(name: str, target: object) -> None:
    assert not accepts(name, {"$include": target})
    assert not accepts(name, {"$ref": target})


@pytest.mark.parametrize("name", AUTHORED)
def test_the_real_form_is_the_last_branch(name: str) -> None:
    """Our checker reports the errors of the last branch."""
    for path, schema in [("", SCHEMAS[name]), *values(name)]:
        first, last = schema["anyOf"]
        assert first == {"$ref": "#/$defs/include"}, path
        assert last != first, path


EXIT = {"action": "exit", "reason": "done"}
ASK = {"prompt": "Do it.", "outcomes": ["done"], "onOutcome": {"done": EXIT}}
MACHINE = {"id": "a-b", "label": "A", "description": "", "initialStep": "s", "steps": {"s": ASK}}
AGENT_STEP = {"id": "a", "agent": "ns:b", "prompt": "Do {{x}}"}
RECIPE = {"name": "r", "description": "d", "version": "1.0.0", "steps": [AGENT_STEP]}
ECHO = {"name": "Say", "command": ["echo", "hi"]}
WORKFLOW = {"version": "1.1", "steps": [ECHO]}
STATE = {
    "schema_version": "1.3",
    "run_id": "20250115T143022Z-a3f8c2",
    "workflow_file": "workflows/x.yaml",
    "workflow_checksum": "sha256:" + "a" * 64,
    "started_at": "2025-01-15T14:30:22Z",
    "updated_at": "2025-01-15T14:30:22Z",
    "status": "running",
    "context": {},
    "steps": {},
}
DONE = {"status": "completed", "exit_code": 0}
STATUS = {
    "schema": "status/v1",
    "agent": "qa",
    "step": "S",
    "timestamp": "2025-01-15T10:30:00Z",
    "success": True,
}


def machine_step(**keys: object) -> dict[str, Any]:
    return MACHINE | {"steps": {"s": ASK | keys}}


def recipe_step(**keys: object) -> dict[str, Any]:
    return RECIPE | {"steps": [AGENT_STEP | keys]}


def staged(**keys: object) -> dict[str, Any]:
    head = {key: value for key, value in RECIPE.items() if key != "steps"}
    return head | {"stages": [{"name": "one", "steps": [AGENT_STEP]} | keys]}


def workflow_step(**keys: object) -> dict[str, Any]:
    return WORKFLOW | {"steps": [ECHO | keys]}


def loop(**keys: object) -> dict[str, Any]:
    return workflow_step(for_each={"items": [1], "steps": [ECHO]} | keys)


GOOD: list[tuple[str, object]] = [
    ("machine", MACHINE),
    ("machine", MACHINE | {"guardrails": {}, "model": "opus"}),
    ("machine", machine_step(onLost="stop", model="haiku")),
    ("machine", MACHINE | {"steps": {"$include": "shared.yaml", "s": ASK, "t": None}}),
    ("machine", machine_step(prompt={"$include": "p.md"})),
    ("recipe", RECIPE),
    ("recipe", staged(name="Phase 1: Critical Fixes", approval={"required": True})),
    ("recipe", recipe_step(foreach="{{files}}", **{"as": "file"}, parallel=True, on_lost="stop")),
    ("recipe", recipe_step(retry={}, recursion={"max_depth": 20}, agent_config={"any": [1]})),
    ("recipe", RECIPE | {"created": "2025-11-18T14:30:00-08:00", "updated": "2025-11-18"}),
    ("recipe", RECIPE | {"steps": [{"$include": "steps.yaml#/review"}, AGENT_STEP]}),
    ("workflow", WORKFLOW),
    ("workflow", WORKFLOW | {"version": "1.3", "context": {"n": 1, "deep": {"a": [None]}}}),
    ("workflow", workflow_step(when={"equals": {"left": 1, "right": True}})),
    ("workflow", workflow_step(depends_on={"required": ["*.md"], "inject": True})),
    ("workflow", workflow_step(depends_on={"inject": {"mode": "content"}})),
    ("workflow", workflow_step(timeout_sec=0.5, retries={"max": 0, "delay_ms": 0})),
    ("workflow", workflow_step(output_require=[{"pointer": "", "equals": None}])),
    ("workflow", workflow_step(name="Run tests")),
    ("workflow", loop(steps=[{"name": "In", "for_each": {"items": [], "steps": [ECHO]}}])),
    ("state", STATE),
    ("state", STATE | {"new": 1, "steps": {"A": DONE | {"new": 1}}}),
    ("state", STATE | {"steps": {"L": [{"A": DONE, "Inner": [{"B": DONE}]}, {}]}}),
    ("status", STATUS),
    ("qa_verdict", {"approved": True, "reason": "Fine."}),
    ("config", {}),
    ("config", {"agents": {"codex": {"args": ["-v"], "models": {"opus": "gpt-5-pro"}}}}),
    ("agent", {}),
    ("agent", {"name": "a", "description": "b", "model": "opus", "tools": "Read, Bash"}),
]

BAD: list[tuple[str, object]] = [
    ("machine", []),
    ("machine", MACHINE | {"id": "Not_Kebab"}),
    ("machine", MACHINE | {"steps": {}}),
    ("machine", MACHINE | {"steps": {"a.b": ASK}}),
    ("machine", MACHINE | {"steps": [ASK]}),
    ("machine", MACHINE | {"model": "gpt-4"}),
    ("machine", MACHINE | {"model": None}),
    ("machine", MACHINE | {"guardrails": {"maxStepVisits": 0}}),
    ("machine", MACHINE | {"extra": 1}),
    ("machine", machine_step(prompt="")),
    ("machine", machine_step(outcomes=[])),
    ("machine", machine_step(outcomes=["a", "a"])),
    ("machine", machine_step(outcomes=["@ok"])),
    ("machine", machine_step(onLost="maybe")),
    ("machine", machine_step(onOutcome={"done": {"action": "stop"}})),
    ("machine", machine_step(onOutcome={"done": {"next": "s"}})),
    ("recipe", RECIPE | {"name": "a b"}),
    ("recipe", RECIPE | {"name": "a" * 101}),
    ("recipe", RECIPE | {"description": "d" * 501}),
    ("recipe", RECIPE | {"version": "1.0"}),
    ("recipe", RECIPE | {"version": "1.0.0-beta"}),
    ("recipe", RECIPE | {"version": "01.0.0"}),
    ("recipe", RECIPE | {"created": "yesterday"}),
    ("recipe", RECIPE | {"steps": []}),
    ("recipe", RECIPE | {"recursion": {"max_depth": 21}}),
    ("recipe", RECIPE | {"recursion": {"max_total_steps": 1001}}),
    ("recipe", recipe_step(id="a" * 51)),
    ("recipe", recipe_step(output="2nd")),
    ("recipe", recipe_step(timeout=0)),
    ("recipe", recipe_step(retry={"max_attempts": 0})),
    ("recipe", recipe_step(retry={"backoff": "random"})),
    ("recipe", recipe_step(on_error="ignore")),
    ("recipe", recipe_step(depends_on="other")),
    ("recipe", recipe_step(max_iterations=True)),
    ("recipe", staged(name="a/b")),
    ("recipe", staged(name="  ")),
    ("recipe", staged(steps=[])),
    ("recipe", staged(approval={"timeout": -1})),
    ("recipe", staged(approval={"default": "maybe"})),
    ("workflow", {"steps": [ECHO]}),
    ("workflow", WORKFLOW | {"version": 1.1}),
    ("workflow", WORKFLOW | {"version": "2.0"}),
    ("workflow", WORKFLOW | {"steps": []}),
    ("workflow", WORKFLOW | {"providers": {"x": {"input_mode": "argv"}}}),
    ("workflow", workflow_step(name="a.b")),
    ("workflow", workflow_step(name="a/b")),
    ("workflow", workflow_step(name="two  spaces")),
    ("workflow", workflow_step(command="echo hi")),
    ("workflow", workflow_step(command=[])),
    ("workflow", workflow_step(command_override=["echo"])),
    ("workflow", workflow_step(env={"DEBUG": 1})),
    ("workflow", workflow_step(env={"A=B": "1"})),
    ("workflow", workflow_step(secrets=["A", "A"])),
    ("workflow", workflow_step(secrets=["not-a-name"])),
    ("workflow", workflow_step(timeout_sec=0)),
    ("workflow", workflow_step(retries={"max": -1})),
    ("workflow", workflow_step(retries={"max": 1.5})),
    ("workflow", workflow_step(when={"equals": {"left": "a"}})),
    ("workflow", workflow_step(when={"matches": "a"})),
    ("workflow", workflow_step(on={"success": "Next"})),
    ("workflow", workflow_step(on={"success": {}})),
    ("workflow", workflow_step(wait_for={"timeout_sec": 1})),
    ("workflow", workflow_step(depends_on={"inject": {"mode": "all"}})),
    ("workflow", workflow_step(depends_on={"inject": "yes"})),
    ("workflow", workflow_step(output_require=[{"pointer": "approved"}])),
    ("workflow", workflow_step(output_capture="xml")),
    ("workflow", loop(steps=[])),
    ("workflow", loop(steps=[{"name": "In", "comand": ["echo"]}])),
    ("workflow", loop(**{"as": "a-b"})),
    ("state", STATE | {"status": "done"}),
    ("state", STATE | {"run_id": "../x"}),
    ("state", STATE | {"steps": {"A": {"exit_code": 0}}}),
    ("state", STATE | {"steps": {"L": [{"A": {"exit_code": 0}}]}}),
    ("status", STATUS | {"schema": "status/v2"}),
    ("status", STATUS | {"outputs": ["/etc/passwd"]}),
    ("status", STATUS | {"outputs": ["a/../../b"]}),
    ("qa_verdict", {"approved": "yes", "reason": "Fine."}),
    ("qa_verdict", {"reason": "Fine."}),
    ("config", {"permissions": "all"}),
    ("config", {"max_parallel": 0}),
    ("config", {"agents": {"codex": {"models": {"large": "x"}}}}),
    ("agent", {"tools": [1]}),
    ("agent", {"colour": "red"}),
]


@pytest.mark.parametrize(("name", "value"), GOOD)
def test_accepts(name: str, value: object) -> None:
    assert [error.message for error in validator(name).iter_errors(value)] == []


@pytest.mark.parametrize(("name", "value"), BAD)
def test_refuses(name: str, value: object) -> None:
    assert not accepts(name, value)


@pytest.mark.parametrize(
    ("name", "document"), [("machine", MACHINE), ("recipe", RECIPE), ("workflow", WORKFLOW)]
)
def test_every_required_key_is_required(name: str, document: dict[str, Any]) -> None:
    for key in SCHEMAS[name]["$defs"][name]["required"]:
        rest = {k: v for k, v in document.items() if k != key}
        assert not accepts(name, rest), key


def build(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the build script as a developer would."""
    command = [sys.executable, str(FOLDER / "build.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_files_are_up_to_date() -> None:
    result = build("--check")
    assert (result.returncode, result.stderr) == (0, "")


def test_check_finds_a_stale_file_and_build_repairs_it(tmp_path: Path) -> None:
    for path in FOLDER.glob("*.json"):
        shutil.copy(path, tmp_path)
    (tmp_path / "agent.schema.json").write_text("{}\n", "utf-8")
    (tmp_path / "state.schema.json").unlink()
    stale = build("--check", "--folder", str(tmp_path))
    assert stale.returncode == 1
    assert {line.split()[0] for line in stale.stderr.splitlines()} == {
        "agent.schema.json",
        "state.schema.json",
    }
    assert build("--folder", str(tmp_path)).returncode == 0
    for path in FOLDER.glob("*.json"):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


# Only workflows have folders of task files.
_FOLDERS = {"inbox_dir", "processed_dir", "failed_dir", "task_extension"}


@pytest.mark.parametrize("dialect", AUTHORED)
def test_a_field_of_another_dialect_is_answered_with_the_way_to_write_it_here(dialect: str) -> None:
    for kind in (None, "step"):
        fields = {
            name: set(SCHEMAS[name]["$defs"][kind or name]["properties"]) for name in AUTHORED
        }
        known = fields[dialect]
        foreign = set().union(*fields.values()) - known - _FOLDERS
        unanswered = {
            f for f in foreign if not advice(f, known) and not intended_field(f, known, ())
        }
        assert not unanswered, f"what is to be written in a {dialect} instead of {unanswered}?"
