"""The workspaces in which these trials take place."""

from __future__ import annotations

from tests.recipes.conftest import shop

__all__ = ["shop"]
