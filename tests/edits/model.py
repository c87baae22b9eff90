"""A simple model of what an edited run keeps and runs, and definitions to compare it with.

A definition is a list of steps and loops. What a run has finished is known by path; after an edit
everything behind the first step that runs anew runs anew, and items do not depend on each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

Path = tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """`text` is what it is asked; `limit` and `label` are no part of that."""

    name: str
    text: str = "1"
    limit: int = 60
    uses: str = ""


@dataclass(frozen=True)
class Loop:
    name: str
    items: tuple[str, ...]
    body: tuple[Step, ...]


@dataclass(frozen=True)
class Definition:
    parts: tuple[Step | Loop, ...]
    comment: str = ""
    values: tuple[tuple[str, str], ...] = (("who", "me"), ("other", "x"))

    def value_of(self, step: Step) -> str:
        return dict(self.values).get(step.uses, "")


@dataclass(frozen=True)
class Call:
    """One execution: where it stands, what it asks, and how the ledger calls it."""

    path: Path
    question: str
    token: str


def calls_of(definition: Definition) -> list[list[list[Call]]]:
    """The executions in order: of each part its independent sequences."""
    found: list[list[list[Call]]] = []
    for part in definition.parts:
        if isinstance(part, Step):
            found.append([[_call(definition, part, (), "")]])
            continue
        counts: dict[str, int] = {}
        sequences = []
        for item in part.items:
            counts[item] = counts.get(item, 0) + 1
            where = (part.name, f"{item}#{counts[item]}")
            sequences.append([_call(definition, step, where, item) for step in part.body])
        found.append(sequences)
    return found


def _call(definition: Definition, step: Step, where: Path, item: str) -> Call:
    question = f"{step.text}|{definition.value_of(step)}|{item}"
    return Call((*where, step.name), question, f"{step.name}-{item}" if item else step.name)


@dataclass
class Model:
    """What the run has finished: the question of each path."""

    finished: dict[Path, str]
    # What has to run from the next start on, and is known not to be done.
    is_over: bool = False

    def run(self, definition: Definition, fails: str = "") -> list[str]:
        """Go through the definition; the tokens that run, up to one that fails."""
        before, self.finished = self.finished, {}
        self.is_over = False
        ran: list[str] = []
        anew = False
        for sequences in calls_of(definition):
            loop_anew = anew
            for sequence in sequences:
                item_anew = anew
                for call in sequence:
                    is_good = before.get(call.path) == call.question and not item_anew
                    if not is_good:
                        item_anew = loop_anew = True
                        ran.append(call.token)
                        if call.token == fails:
                            self._leave(before, call, was_anew=anew)
                            return ran
                    self.finished[call.path] = call.question
            anew = loop_anew
        self.is_over = True
        return ran

    def _leave(self, before: dict[Path, str], failed: Call, *, was_anew: bool) -> None:
        """The run stops: items of the same loop that were not looked at keep what they have."""
        if was_anew or len(failed.path) == 1:
            return
        loop = failed.path[0]
        for path, question in before.items():
            if path[0] == loop and len(path) > 1 and path[1] != failed.path[1]:
                self.finished.setdefault(path, question)


def as_workflow(definition: Definition) -> str:
    lines = [definition.comment, 'version: "1.4"', "name: trial"]
    lines.append("context: {" + ", ".join(f"{k}: {v}" for k, v in definition.values) + "}")
    lines.append("steps:")
    for part in definition.parts:
        if isinstance(part, Step):
            lines.append("  - " + _command(part, ""))
            continue
        lines.append(f"  - name: {part.name}\n    for_each:")
        lines.append(f"      items: [{', '.join(part.items)}]\n      steps:")
        lines += ["        - " + _command(step, "-${item}") for step in part.body]
    return "\n".join(lines) + "\n"


def _command(step: Step, item: str) -> str:
    used = f"${{context.{step.uses}}}" if step.uses else ""
    script = f"echo {step.name}{item} >> ledger; : {step.text} {used}; "
    script += f"test ! -e fail-{step.name}{item}"
    return f'{{name: {step.name}, timeout_sec: {step.limit}, command: ["sh", "-c", "{script}"]}}'


def as_recipe(definition: Definition) -> str:
    lines = [definition.comment, "name: trial", "description: d", "version: 1.0.0"]
    lines.append("context: {" + ", ".join(f"{k}: {v}" for k, v in definition.values))
    loops = [part for part in definition.parts if isinstance(part, Loop)]
    lines[-1] += "".join(f", {p.name}_items: [{', '.join(p.items)}]" for p in loops) + "}"
    lines.append("steps:")
    for part in definition.parts:
        step = part if isinstance(part, Step) else part.body[0]
        used = f"{{{{{step.uses}}}}}" if step.uses else ""
        loop = ""
        if isinstance(part, Loop):
            loop = f'foreach: "{{{{{part.name}_items}}}}", as: item, '
        item = "-{{item}}" if loop else ""
        lines.append(
            f"  - {{id: {step.name}, {loop}timeout: {step.limit}, agent: helper, "
            f'prompt: "STEP:{step.name}{item} {step.text} {used}"}}'
        )
    return "\n".join(lines) + "\n"


def as_machine(definition: Definition) -> str:
    steps = [part for part in definition.parts if isinstance(part, Step)]
    lines = [definition.comment, "id: trial", "label: Trial", "description: d"]
    lines += [f"initialStep: {steps[0].name}", "steps:"]
    for step, then in zip(steps, (*(s.name for s in steps[1:]), ""), strict=True):
        way = f"{{nextStep: {then}}}" if then else "{action: exit, reason: all done}"
        lines.append(
            f"  {step.name}: {{outcomes: [done, other], timeout: {step.limit}, "
            f'prompt: "STEP:{step.name} {step.text}", onOutcome: {{done: {way}, '
            "other: {action: exit, reason: gave up, status: failed}}}"
        )
    return "\n".join(lines) + "\n"


def with_part(definition: Definition, name: str, /, **changes: object) -> Definition:
    """The definition with a step (wherever it stands) or a loop changed."""

    def changed(part: Step | Loop) -> Step | Loop:
        if part.name == name:
            return replace(part, **changes)  # type: ignore[arg-type]
        if isinstance(part, Loop):
            body = tuple(
                replace(s, **changes) if s.name == name else s  # type: ignore[arg-type]
                for s in part.body
            )
            return replace(part, body=body)
        return part

    return replace(definition, parts=tuple(map(changed, definition.parts)))
