"""Ends a call of an agent that uses more than it may: behind the program's own cap, or in place of
one that it does not have.

Some programs tell while they work what each message has taken. Those tokens count as they are; in
dollars what a message is told to have cost, else, by the prices of the configuration, only what it
costs at least: tokens that are read again are cheaper than a price for all of them would say, and a
call that keeps within its cap must never be ended.
"""

from __future__ import annotations

from contextlib import suppress

from orchestrate.agents.base import Agent, Used
from orchestrate.engine.step import Step
from orchestrate.execute.reasons import OVER_BUDGET
from orchestrate.state.result import StepResult

_AT_ONCE = 4 << 20


class Watchdog:
    """Follows what one call tells, from where it last looked."""

    def __init__(self, step: Step, agent: Agent) -> None:
        self._step = step
        self._agent = agent
        self._read = 0
        self._is_ended = False
        self.used: dict[str, Used] = {}

    def look(self) -> bool:
        """Read on, and end the call if it is over; is it worth another look?"""
        reserved = self._step.here.reserved
        if self._is_ended or (reserved.cap is None and reserved.cap_tokens is None):
            return False
        self.read_on()
        if self._is_over():
            self._is_ended = True
            rt, attempt = self._step.rt, self._step.attempt_id
            rt.executor_of(attempt).stop(attempt, OVER_BUDGET, rt.rules.grace_s)
        return not self._is_ended

    def read_on(self) -> None:
        """Take in the whole lines that were printed since the last look."""
        executor, output = (
            self._step.rt.executor_of(self._step.attempt_id),
            self._step.output("stdout"),
        )
        more = b""
        with suppress(OSError):
            while chunk := executor.read(output, self._read + len(more), _AT_ONCE):
                more += chunk
        whole = more[: more.rfind(b"\n") + 1]
        self._read += len(whole)
        self.used |= {used.message: used for used in self._agent.used_in(whole)}

    def _is_over(self) -> bool:
        reserved, used = self._step.here.reserved, self.used.values()
        most = reserved.cap_tokens
        if most is not None and sum(u.read + u.cached + u.written for u in used) > most:
            return True
        cap, dollars = reserved.cap, self.dollars()
        return cap is not None and dollars is not None and dollars > cap

    def dollars(self) -> float | None:
        """What the call has cost at least; None where a message neither tells its cost nor has a
        model with a price."""
        costs = [self._cost_of(used) for used in self.used.values()]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if known and len(known) == len(costs) else None

    def _cost_of(self, used: Used) -> float | None:
        if used.cost_usd is not None:
            return used.cost_usd
        model = used.model or self._step.about.model
        return self._step.rt.rules.money.computed(model, used.read, used.written)


def used_at_least(step: Step, agent: Agent) -> StepResult:
    """What a call has told of that was ended before it could sum it up."""
    watchdog = Watchdog(step, agent)
    watchdog.read_on()
    used = watchdog.used.values()
    if not used:
        return StepResult()
    told = StepResult(
        input_tokens=sum(u.read + u.cached for u in used),
        output_tokens=sum(u.written for u in used),
    )
    dollars = watchdog.dollars()
    if dollars is None:
        return told
    told |= StepResult(cost_usd=round(dollars, 10))
    is_told = all(one.cost_usd is not None for one in used)
    return told if is_told else told | StepResult(cost_computed=True)
