"""Every diagnostic code with its name and one sentence; docs/reference/diagnostics.md explains."""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    """A stable code: scripts may rely on it, so a code is never given a second meaning."""

    name: str
    summary: str


CODES: dict[str, Code] = {
    # reading
    "E001": Code("unreadable-file", "The file does not exist or cannot be read."),
    "E002": Code("not-a-regular-file", "The path is a folder, a FIFO, a device or a socket."),
    "E003": Code("file-too-large", "The file is larger than 10 MB."),
    "E004": Code("not-utf8-text", "The file is binary or not UTF-8 text."),
    "E005": Code("empty-file", "The file holds no document."),
    "E006": Code("syntax-error", "The file is not valid YAML or JSON."),
    "E007": Code("duplicate-key", "A mapping sets the same key twice."),
    "E008": Code("merge-key", "A mapping uses YAML 1.1's merge key (<<)."),
    "E009": Code("tag", "A value carries a tag other than YAML's core ones."),
    "E010": Code("bad-alias", "An alias names no anchor, or an anchor contains itself."),
    "E011": Code("too-deep", "The document nests deeper than 100 levels."),
    "E012": Code(
        "too-many-values",
        "The document holds more than 100,000 values, or expands to more than 1,000,000.",
    ),
    "E013": Code("key-not-text", "A mapping's key is not text."),
    "E014": Code("number-not-json", "A number is infinite, not a number, or far too long."),
    "E015": Code("several-documents", "The file holds more than one YAML document."),
    # includes
    "E020": Code("include-unreadable", "An included file is missing or cannot be read."),
    "E021": Code("include-cycle", "Files include each other in a circle."),
    "E022": Code("include-outside", "An include leaves the workspace."),
    "E023": Code("include-pointer", "The pointer after # names nothing in the target."),
    "E024": Code("include-form", "The include is written in a form that has no meaning."),
    "E025": Code("include-type", "The included value cannot stand at this place."),
    # dialect and schema
    "E030": Code("unknown-dialect", "The document is not a machine, a recipe or a workflow."),
    "E101": Code("unknown-field", "The field is not part of the dialect."),
    "E102": Code("missing-field", "A required field is missing."),
    "E103": Code("wrong-type", "The value has the wrong type."),
    "E104": Code("not-allowed-value", "The value is not one of those allowed."),
    "E105": Code("malformed-value", "The text does not have the required form."),
    "E106": Code("out-of-range", "A number or a length is outside its range."),
    "E107": Code("too-few-items", "A list or mapping has fewer entries than it needs."),
    "E108": Code("repeated-item", "A list repeats an item."),
    "E109": Code("needs-newer-version", "The field needs a newer `version:`."),
    "E110": Code("input-form", "An input says what cannot hold, or takes another's name."),
    "E111": Code("limit-twice", "A limit is written in two places."),
    # variables and templates
    "E120": Code("malformed-variable", "A variable or template is not written correctly."),
    "E121": Code("unknown-variable", "The variable cannot exist where it is used."),
    "E122": Code("env-variable", "${env.*} is not a namespace."),
    "E123": Code("malformed-condition", "The condition cannot be parsed."),
    "E124": Code("unknown-step-result", "The variable names a step or a result that is not there."),
    "E125": Code("undefined-variable", "A variable is certain to have no value where it is used."),
    "E126": Code("session-of-two", "One session cannot be used by two agents."),
    "E127": Code("command-beside-words", "An input of type command stands beside other words."),
    "E128": Code("setting-refused", "The agent that a run would ask cannot take a setting."),
    # machine
    "E201": Code("unknown-initial-step", "`initialStep` is not one of the steps."),
    "E202": Code("undeclared-outcome", "`onOutcome` names an outcome that is not declared."),
    "E203": Code("unknown-next-step", "`nextStep` is not one of the steps."),
    "E204": Code("exit-without-reason", "An exit has no reason."),
    "E205": Code("other-must-exit", "The outcome `other` must exit, with a reason."),
    "E206": Code("ambiguous-transition", "A transition is not exactly one of its three forms."),
    "E207": Code("outcome-without-transition", "An outcome has no transition."),
    "E208": Code("unknown-recipe", "`restart-new-session` names a recipe that cannot be found."),
    # recipe
    "E209": Code("step-kind-fields", "A machine's step has fields that do not go together."),
    "E301": Code("steps-and-stages", "A recipe has both or neither of `steps` and `stages`."),
    "E302": Code("duplicate-id", "Two steps or stages share a name."),
    "E303": Code("agent-step-fields", "An agent step lacks a field or has one it cannot use."),
    "E304": Code("recipe-step-fields", "A recipe step lacks a field or has one it cannot use."),
    "E305": Code("loop-fields", "A field of a loop is used without its loop."),
    "E306": Code("foreach-not-variable", "`foreach` is not one variable reference."),
    "E307": Code("reserved-name", "A variable takes a reserved name."),
    "E308": Code("unknown-dependency", "`depends_on` names no earlier step."),
    "E309": Code("condition-without-variable", "A condition has no variable."),
    "E310": Code("gate-without-prompt", "A required approval has no prompt."),
    "E311": Code("sub-recipe-unreadable", "The sub-recipe's file cannot be used."),
    "E313": Code("bash-step-fields", "A bash step lacks a field or has one it cannot use."),
    "E314": Code(
        "approval-step-fields", "An approval step lacks a field or has one it cannot use."
    ),
    "E315": Code("call-arguments", "A call does not give the called file what it needs."),
    # workflow
    "E401": Code("step-kind", "A step is not exactly one kind of step."),
    "E402": Code("duplicate-step", "Two steps of one scope share a name."),
    "E403": Code("reserved-step-name", "A step takes a reserved name."),
    "E404": Code("unknown-goto", "A goto names no step that it can reach."),
    "E405": Code("goto-into-loop", "A goto jumps into a loop from outside."),
    "E406": Code("unsafe-path", "A path leaves the workspace, or is not the workflow's to write."),
    "E407": Code("globstar", "A pattern uses `**`."),
    "E408": Code("field-not-for-kind", "The field has no meaning on this kind of step."),
    "E409": Code("when-form", "`when` has not exactly one condition."),
    "E410": Code("items-pointer", "`items_from` is not a pointer to an earlier result."),
    "E411": Code("items-form", "A loop has both or neither of `items` and `items_from`."),
    "E412": Code("capture-fields", "A field needs another `output_capture`."),
    "E413": Code("parse-error-conflict", "`allow_parse_error` excludes output checks."),
    "E414": Code("invalid_prompt_placeholder", "A stdin provider uses ${PROMPT}."),
    "E415": Code("prompt-placeholder", "${PROMPT} stands outside a provider template."),
    "E416": Code("shell-place", "A value stands where a shell would evaluate it."),
    "E417": Code("command-override", "`command_override` is not supported."),
    "E418": Code("goto-out-of-parallel", "A goto leaves a loop whose items run at once."),
    # warnings
    "W101": Code("mixed-and-or", "A condition mixes `and` and `or`."),
    "W102": Code("maybe-undefined", "A variable may be undefined when it is used."),
    "W103": Code("never-set-input", "A variable must come from --context."),
    "W104": Code("unknown-agent", "The agent or provider is not known here."),
    "W105": Code("endless-wait", "A wait or a gate may never end."),
    "W106": Code("comment-in-text", "A text ends where YAML reads a comment."),
    "W107": Code("unbraked-circle", "A circle of steps asks an agent, and nothing limits it."),
    "W108": Code("setting-not-taken", "The agent cannot take a setting."),
    "W109": Code("input-of-another-dialect", "An input is read as another dialect would."),
    "W110": Code("literal-template", "A machine without inputs has a text like a template."),
    "W201": Code("unreachable-step", "No path leads to the step."),
    "W202": Code("only-loops", "From here no path leads to an end."),
    "W203": Code("no-other-outcome", "A step has no `other` outcome as a way out."),
    "W301": Code("recursive-recipe", "Recipes call each other in a circle."),
    "W302": Code("dynamic-sub-recipe", "The sub-recipe's path is known only at run time."),
    "W303": Code("loop-over-no-list", "`foreach` names a variable that does not hold a list."),
    "W304": Code("limit-too-low", "The recipe cannot end within its own `recursion` limits."),
    "W401": Code("value-in-inline-code", "A value stands inside another interpreter's code."),
    "W402": Code("missing-placeholder", "A provider's placeholder has no value."),
    "W403": Code("shell-syntax-outside-shell", "Shell syntax stands where no shell reads it."),
    "W404": Code("ignored-parameter", "A provider parameter is not used by its template."),
    "W405": Code("value-as-program", "A value chooses the program to run."),
    "W406": Code("overridden-handler", "A handler is never used: `on.always` overrides it."),
    "W407": Code("no-effect", "Something is written that has no effect at its place."),
}
