"""The values that must never be shown: known from the start of a run, masked wherever we write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrate.engine.faults import StepFault
from orchestrate.plan.nodes import Ask, Environment, Program, Run
from orchestrate.process.masking import Mask

MASKED = "***"


class Secrets:
    """The secrets that a program's steps name, with the values of our environment.

    A step that prints another step's secret is masked too. A variable that is both in `env` and
    in `secrets` has the value of `env`, which is a secret then (C).
    """

    def __init__(self, program: Program, environment: Mapping[str, str]) -> None:
        self._environment = environment
        values: dict[str, None] = {}
        for rules in _environments(program):
            own = dict(rules.variables)
            for name in rules.secrets:
                for value in (environment.get(name), own.get(name)):
                    if value:
                        values[value] = None
        self.values = tuple(values)
        self._mask = Mask(self.values) if values else None

    def text(self, text: str) -> str:
        """The text with all secrets masked."""
        if self._mask is None:
            return text
        data = text.encode("utf-8", "surrogatepass")
        return self._mask.apply(data).decode("utf-8", "surrogatepass")

    def data(self, value: Any) -> Any:
        """A JSON value with the secrets in its texts masked; keys too, for agents make them up."""
        if self._mask is None:
            return value
        match value:
            case str():
                return self.text(value)
            case list():
                return [self.data(item) for item in value]
            case dict():
                return {self.text(str(key)): self.data(item) for key, item in value.items()}
            case _:
                return value

    def environment_of(self, rules: Environment) -> dict[str, str]:
        """What a child gets: ours, its secrets (which are ours too), its own variables last."""
        missing = [name for name in rules.secrets if name not in self._environment]
        if missing:
            noun = "secret is" if len(missing) == 1 else "secrets are"
            raise StepFault(
                f"the {noun} not set: {', '.join(missing)}", {"missing_secrets": missing}
            )
        return {**self._environment, **dict(rules.variables)}


def _environments(program: Program) -> Iterator[Environment]:
    for plan in program.plans:
        for block in plan.blocks:
            for node in block.nodes:
                if isinstance(node.op, Ask | Run):
                    yield node.op.environment
