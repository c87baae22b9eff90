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

    if rows := one.get("diff"):
        lines = "".join(f"    {visible(row)}\n" for row in rows)
        return f"{visible(one['about'])}:\n{lines}"
    return f"{visible(one['about'])}: {side(one['first'])} → {side(one['second'])}\n"


def patch_text(patch: bytes) -> str:
    """A patch for people: nothing in it can steer a terminal."""
    lines = patch.decode("utf-8", "replace").splitlines()
    return "".join(f"{visible(line)}\n" for line in lines)
