"""The kinds of steps that a recipe has: agent, recipe, bash, approval; and the fields of each."""

from __future__ import annotations

from typing import Any, Literal

from orchestrate.dialects.commands import Parts, lower_command
from orchestrate.dialects.effects import check_effect
from orchestrate.dialects.lowering import Lowering
from orchestrate.dialects.recipe.names import ExpressionPlace, lower_text
from orchestrate.dialects.recipe.written import Recipe
from orchestrate.lang.curly import Placed, parse_template
from orchestrate.plan.data import Capture
from orchestrate.plan.expr import Text
from orchestrate.plan.nodes import Run
from orchestrate.record import mutable_record, record, replace
from orchestrate.source.advice import COMMAND_WORDS
from orchestrate.source.located import LocatedMap, PathKey, as_map

Kind = Literal["agent", "recipe", "bash", "approval"]


@record
class _Fields:
    """What a kind of step needs, and what has no meaning on it."""

    code: str
    name: str
    needs: str
    foreign: tuple[str, ...]
    way_out: str


_OF_CALL = ("recipe", "context", "recursion")
_OF_AGENT = ("agent", "mode", "prompt", "agent_config", "session", "check", "produces", "limits")
_OF_COMMAND = ("command", "cwd", "env", "output_exit_code")
_FIELDS: dict[Kind, _Fields] = {
    "agent": _Fields(
        "E303", "an agent step", "prompt", (*_OF_CALL, *_OF_COMMAND, "approval"), "type: agent",
    ),
    "recipe": _Fields(
        "E304", "a recipe step", "recipe",
        ("agent", "mode", "prompt", "agent_config", "parse_json", "session", "check", "produces",
         "limits", *_OF_COMMAND, "approval"),
        "remove type: recipe to ask an agent",
    ),
    "bash": _Fields(
        "E313", "a bash step", "command", (*_OF_AGENT, *_OF_CALL, "approval"),
        "remove type: bash to ask an agent",
    ),
    "approval": _Fields(
        "E314", "an approval step", "approval",
        (*_OF_AGENT, *_OF_CALL, *_OF_COMMAND, "output", "collect", "parse_json", "timeout",
         "retry", "on_error", "on_lost", "effect"),
        "remove type: approval to ask an agent",
    ),
}  # fmt: skip
# The type that a field belongs to, where the step has none.
_TYPE_OF = {
    "recipe": "add type: recipe to call another recipe",
    "context": "add type: recipe to call another recipe",
    "recursion": "add type: recipe to call another recipe",
    "approval": "add type: approval to ask a person",
} | dict.fromkeys(_OF_COMMAND, "add type: bash to run a command")
_EXAMPLES = {
    "prompt": "add prompt: and say what the agent is to do",
    "recipe": "add recipe: path/to/other.yaml",
    "command": "add command: make test",
    "approval": 'add approval: { prompt: "Commit this?", timeout: 24h }',
}
_FILL = {
    "agent": "name an agent, or remove it to ask the run's own",
    "prompt": "say what the agent is to do",
    "recipe": "name the file of a recipe",
    "command": "write a script, or an argument list",
}
_ELSEWHERE = {
    "context": "write it under `context:` at the top of the file, for all steps",
    "recursion": "write it at the top of the file, for the whole recipe",
}
_IN_APPROVAL = {
    "prompt": "write it inside approval:",
    "timeout": "write it inside approval:",
    "output": "later steps read what the person said as {{approval.message}}",
    "on_error": "a denied run ends; ask in an agent step what may go on",
}


def kind_of(recipe: Recipe, step: LocatedMap) -> Kind:
    """What the step does; fields that do not fit it are reported."""
    kind: Kind = step.get("type", "agent")
    if "type" in step or recipe.lacks(step, "type"):
        _check_fields(recipe, step, kind)
        return kind
    # The schema rejected `type`: what it should say can be seen, and need not be said twice.
    seen: dict[str, Kind] = {"recipe": "recipe", "command": "bash", "approval": "approval"}
    return next((kind for key, kind in seen.items() if key in step), "agent")


def _check_fields(recipe: Recipe, step: LocatedMap, kind: Kind) -> None:
    """An accepted field is enforced; one without a meaning on this kind of step is rejected."""
    work, fields = recipe.work, _FIELDS[kind]
    foreign = [key for key in fields.foreign if key in step]
    # A step written wholly in the other kind's fields has one mistake, its type.
    confused = bool(foreign) and fields.needs not in step
    for key in foreign[:1] if confused else foreign:
        hint = _ELSEWHERE.get(key, "remove it")
        if kind == "approval":
            hint = _IN_APPROVAL.get(key, "remove it")
        elif confused:
            hint = _TYPE_OF.get(key, "") if kind == "agent" else fields.way_out
        work.report(fields.code, f"'{key}' has no meaning on {fields.name}", step, key,
                    on_key=True, hint=hint)  # fmt: skip
    needed = fields.needs
    # Work in another tool's word is told what to write as a whole.
    confused |= kind == "agent" and any(word in step.lost for word in (*COMMAND_WORDS, "uses"))
    if recipe.lacks(step, needed) and not confused:
        at = "id" if "id" in step else None
        message = f"{fields.name} needs '{needed}'"
        work.report(fields.code, message, step, at, hint=_EXAMPLES[needed])
    for key in (needed, "agent"):
        if isinstance(step.get(key), str) and not step[key].strip():
            work.report(fields.code, f"'{key}' is blank", step, key, hint=_FILL[key])
    check_effect(work, step, fields.code, "retry", "on_lost")
    for key in ("on_lost", "effect") if kind == "recipe" else ():
        if key in step:
            work.report(
                fields.code,
                f"'{key}' has no meaning on {fields.name}",
                step,
                key,
                on_key=True,
                hint="set it on the steps of the recipe that is called",
            )


@mutable_record
class RecipeFiller:
    """How a recipe writes values into commands."""

    recipe: Recipe
    place: ExpressionPlace
    in_shell: bool = False
    in_template: bool = False

    @property
    def work(self) -> Lowering:
        return self.recipe.work

    def parts(self, container: Any, key: PathKey) -> Parts:
        return lower_text(self.work, self.recipe.names, self.place, container, key).parts

    def written(self, text: str) -> tuple[Parts, tuple[Placed, ...]]:
        template = parse_template(text)
        return template.parts, template.placed


def _variable(filler: RecipeFiller, variables: LocatedMap, name: str) -> Text:
    """The value of a variable in `env`: a template, or `true` and `false` as they are written."""
    value = variables[name]
    if isinstance(value, bool):
        return Text(("true" if value else "false",))
    return Text(filler.parts(variables, name))


def lower_bash(recipe: Recipe, step: LocatedMap, place: ExpressionPlace) -> Run:
    """`type: bash`: a script or an argument list; `env` and `cwd` are filled in, too."""
    filler = RecipeFiller(recipe, place)
    run = lower_command(filler, step)
    variables = as_map(step.get("env"))
    environment = tuple((name, _variable(filler, variables, name)) for name in variables)
    if "output_exit_code" in step and step["output_exit_code"] in (
        step.get("output"), step.get("collect"),
    ):  # fmt: skip
        recipe.work.report("W407", "'output_exit_code' names a variable that the result has",
                           step, "output_exit_code", hint="choose another name")  # fmt: skip
    if "output_exit_code" in step and step.get("on_error", "fail") == "fail":
        recipe.work.report(
            "W407",
            "'output_exit_code' can only be 0 here: any other exit code ends the recipe",
            step,
            "output_exit_code",
            on_key=True,
            hint="add on_error: continue to go on, and decide by its value",
        )
    return replace(
        run,
        values=(*environment, *run.values),
        cwd=Text(filler.parts(step, "cwd")) if "cwd" in step else None,
        capture=Capture(value="json" if step.get("parse_json", False) else "text"),
        exit_code=step.get("output_exit_code"),
    )
