"""How long a run has worked: while at least one attempt was at work, not in the pauses between
retries or sittings."""

from __future__ import annotations

from orchestrate.record import record
from orchestrate.state.result import StepResult
from orchestrate.state.times import seconds_of


@record
class WorkingTime:
    """For how long attempts were at work, how many are, and since when."""

    seconds: float = 0.0
    busy: int = 0
    since: float = 0.0

    def until(self, now: float) -> float:
        return self.seconds + (max(0.0, now - self.since) if self.busy else 0.0)

    def begun(self, at: float) -> WorkingTime:
        """One more attempt is at work."""
        return WorkingTime(self.seconds, self.busy + 1, self.since if self.busy else at)

    def ended(self, at: float, unwatched_s: float) -> WorkingTime:
        """One attempt less; `unwatched_s` is what it worked while no orchestrator did."""
        seconds = self.until(at) if self.busy == 1 else self.seconds
        return WorkingTime(seconds + unwatched_s, max(self.busy - 1, 0), self.since)

    def left(self, at: float) -> WorkingTime:
        """The sitting is over: how long what still runs will be at work is unknown."""
        return WorkingTime(self.until(at), 0, at)


@record
class Unwatched:
    """After a kill: until when what went on by itself is counted, and when the run was resumed."""

    counted: float = 0.0
    resumed: float = 0.0

    def until_end(self, result: StepResult) -> Unwatched:
        """With an attempt counted that has ended."""
        if self.counted >= self.resumed or not result.completed_at:
            return self
        end = min(seconds_of(result.completed_at), self.resumed)
        return Unwatched(max(end, self.counted), self.resumed)

    def seconds_of(self, result: StepResult) -> float:
        """How long an attempt worked after its orchestrator was killed and before the resume, as
        far as others at work then have not told the same."""
        end = self.until_end(result).counted
        if end <= self.counted:
            return 0.0
        return max(0.0, end - max(seconds_of(result.started_at), self.counted))
