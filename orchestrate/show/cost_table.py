"""What was spent, as a table; on a terminal with bars."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrate.plan.visible import visible, width_of
from orchestrate.view.bill import Spending

_BAR = 24
_LEAST_BAR = 8  # a shorter one tells nothing
_MOST_RUNS = 3


def spending_table(rows: Sequence[Spending], total: Spending, columns: int) -> str:
    """A line for each, and one for all, with bars as far as a terminal of so many columns goes."""
    names = [visible(row.name) for row in (*rows, total)]
    width = max(map(width_of, names))
    spent = [f"${row.spent_usd:.4f}" for row in (*rows, total)]
    most = max((row.spent_usd for row in rows), default=0.0)
    lines = []
    for name, cost, row in zip(names, spent, (*rows, total), strict=True):
        pad = " " * (width - width_of(name))
        lines.append(f"{name}{pad}  {cost:>{max(map(len, spent))}}{_more(row)}")
    room = columns - max(map(width_of, lines)) - 2
    longest = min(_BAR, room) if most and room >= _LEAST_BAR else 0
    for number, row in enumerate(rows):
        bar = "█" * round(longest * row.spent_usd / most) if longest else ""
        lines[number] += f"  {bar}" if bar else ""
    return "".join(f"{line}\n" for line in lines)


def _more(row: Spending) -> str:
    """What the sum does not say."""
    told = [f"{row.calls} call{'s' * (row.calls != 1)}"]
    if row.computed_usd:
        told.append(f"${row.computed_usd:.4f} of it computed from prices")
    if row.unknown_calls:
        told.append(f"{row.unknown_calls} of unknown cost (counted as ${row.counted_usd:.2f})")
    if row.reserved_usd:
        told.append(f"${row.reserved_usd:.2f} reserved{_left(row)}")
    return "  " + ", ".join(told)


def _left(row: Spending) -> str:
    """Which of it is not given back until the run is resumed."""
    if not row.left_runs:
        return ""
    runs = ", ".join(row.left_runs[:_MOST_RUNS])
    more = f" and {len(row.left_runs) - _MOST_RUNS} more" * (len(row.left_runs) > _MOST_RUNS)
    share = "" if row.left_usd == row.reserved_usd else f"${row.left_usd:.2f} of it "
    settling = "which no process works on: resume settles it, else it counts for its day"
    return f" ({share}by {runs}{more}, {settling})"
