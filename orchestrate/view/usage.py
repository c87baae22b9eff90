"""What agents reported to have used, added up."""

from __future__ import annotations

from orchestrate.record import mutable_record
from orchestrate.state.result import StepResult

_FIGURES = ("cost_usd", "input_tokens", "output_tokens")


@mutable_record
class TotalUsage:
    """What agents reported; what they did not report is counted, never taken as nothing."""

    turns: int = 0
    free_turns: int = 0
    # Figures that were not reported are None.
    cost_usd: float | None = None
    without_cost: int = 0
    # Of the turns: whose cost was computed from prices of tokens.
    computed: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    without_tokens: int = 0

    def add(self, result: StepResult) -> None:
        # A provider that a workflow declares costs an unknown amount.
        if not result.is_turn:
            return
        if not result.billed:
            self.free_turns += 1
            return
        self.turns += 1
        self.without_cost += result.cost_usd is None
        self.computed += result.cost_computed
        self.without_tokens += result.input_tokens is None or result.output_tokens is None
        self._add_figures(result.cost_usd, result.input_tokens, result.output_tokens)

    def include(self, other: TotalUsage) -> None:
        self.turns += other.turns
        self.free_turns += other.free_turns
        self.without_cost += other.without_cost
        self.computed += other.computed
        self.without_tokens += other.without_tokens
        self._add_figures(other.cost_usd, other.input_tokens, other.output_tokens)

    def _add_figures(self, *reported: float | None) -> None:
        for name, figure in zip(_FIGURES, reported, strict=True):
            if figure is not None:
                setattr(self, name, round((getattr(self, name) or 0) + figure, 10))
