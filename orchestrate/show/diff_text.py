"""How two runs differ, in lines."""

from __future__ import annotations

import json
from typing import Any

from orchestrate.plan.visible import visible

_LONGEST = 200


def difference_line(one: dict[str, Any]) -> str:
    def side(value: Any) -> str:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return visible(text[:_LONGEST])

    return f"{visible(one['about'])}: {side(one['first'])} → {side(one['second'])}\n"
