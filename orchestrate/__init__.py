"""orchestrate: recipes for coding agents, compiled to a checked plan before anything runs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrate.api import RunResult, compile_file, decide, read_run, resume, start
    from orchestrate.app.settings import RunSettings

__version__ = "0.1.0"
__all__ = [
    "RunResult",
    "RunSettings",
    "__version__",
    "compile_file",
    "decide",
    "read_run",
    "resume",
    "start",
]


def __getattr__(name: str) -> Any:
    """The Python interface is loaded when it is first used: the commands have no need of it."""
    if name not in __all__:
        raise AttributeError(f"module 'orchestrate' has no attribute '{name}'")
    return getattr(import_module("orchestrate.api"), name)
