"""The workspaces in which these trials take place."""

from __future__ import annotations

from tests.recipes.conftest import quick_top, shop

__all__ = ["quick_top", "shop"]
