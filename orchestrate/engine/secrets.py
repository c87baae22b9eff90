"""The values that must never be shown: known from the start of a run, masked wherever we write."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrate.engine.faults import StepFault
from orchestrate.engine.masked_keys import keep_apart
from orchestrate.execute.masking import Mask, is_too_short
from orchestrate.plan.data import Environment
from orchestrate.plan.nodes import Ask, Program, Run, all_nodes
from orchestrate.record import record

# The names of variables that hold secrets without being listed.
_ENDINGS = ("_API_KEY", "_TOKEN", "_SECRET")
_PART = "PASSWORD"
_LEAST_GUESSED = 12


@record
class Masking:
    """What is masked besides the secrets that the definition names.

    `named` are variables that a person has named, `known` those that we know; `guesses` adds those
    that are called like secrets. `more` are other environments that programs of the run get
    (`agents.NAME.env`).
    """

    named: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()
    guesses: bool = False
    more: tuple[Mapping[str, str], ...] = ()


class Secrets:
    """The secrets of a program and of our environment, with their values.

    A step that prints another step's secret is masked too. A variable that is both in `env` and
    in `secrets` has the value of `env`, which is a secret then (C).
    """

    def __init__(self, program: Program, environment: Mapping[str, str], masking: Masking) -> None:
        self._environment = environment
        # The name of each value, for a warning about one that is too short.
        self._named: dict[str, str] = {}
        self._unnamed: set[str] = set()
        for variables in (environment, *masking.more):
            for name, value in variables.items():
                if name in masking.named:
                    self._named.setdefault(value, name)
                elif name in masking.known or (masking.guesses and looks_secret(name, value)):
                    self._unnamed.add(value)
        self.learn(program)

    def learn(self, program: Program) -> None:
        """Mask what this program names, too; one that a run reaches late comes late."""
        named = dict(self._named)
        for plan in program.plans:
            for secret in plan.secrets:
                named.setdefault(self._environment.get(secret.name, ""), secret.name)
        for rules in _environments(program):
            own = dict(rules.variables)
            for name in rules.secrets:
                for value in (self._environment.get(name, ""), own.get(name, "")):
                    named.setdefault(value, name)
        named.pop("", None)
        self._named = named
        # In an order that does not change, so that the keeper need not make its mask anew.
        values = (*named, *sorted(self._unnamed - named.keys()))
        self.values = tuple(value for value in values if not is_too_short(value))
        self._mask = Mask(self.values) if self.values else None

    @property
    def too_short(self) -> tuple[str, ...]:
        """The names of those that are not masked: a person must know that they are shown."""
        short = self._named.keys() - set(self.values)
        return tuple(sorted({self._named[value] for value in short}))

    def text(self, text: str, is_whole: bool = True) -> str:
        """The text with all secrets masked.

        Of one that goes on, what may be the beginning of a secret is held back.
        """
        if self._mask is None:
            return text
        data = text.encode("utf-8", "surrogatepass")
        masked = self._mask.apply(data) if is_whole else self._mask.cut(data, 0)[0]
        return masked.decode("utf-8", "surrogatepass" if is_whole else "ignore")

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
                return keep_apart(
                    (self.text(str(key)), self.data(item)) for key, item in value.items()
                )
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


def looks_secret(name: str, value: str) -> bool:
    """Is a variable called like one with a secret, and is its value like one?"""
    upper = name.upper()
    is_called_so = upper.endswith(_ENDINGS) or _PART in upper
    return is_called_so and len(value.strip()) >= _LEAST_GUESSED and not _is_path(value.strip())


def _is_path(value: str) -> bool:
    """Does it name a file? One value in 64 that is base64 begins with a slash, too."""
    if not value.startswith(("/", "~/", "./", "../")):
        return False
    return os.path.lexists(value) or (value.count("/") > 1 and not set(value) & set("+="))


def _environments(program: Program) -> Iterator[Environment]:
    for node in all_nodes(program):
        if isinstance(node.op, Ask | Run):
            yield node.op.environment
