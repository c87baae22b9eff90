"""orchestrate: recipes for coding agents, compiled to a checked plan before anything runs."""

# Not from `typing`: a keeper, which each run starts, has no need of that module.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from orchestrate.api import RunResult, compile_file, decide, read_run, resume, start
    from orchestrate.app.given.settings import RunSettings

__version__ = "0.2.0"
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


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    """The Python interface is loaded when it is first used: the commands have no need of it."""
    if name not in __all__:
        raise AttributeError(f"module 'orchestrate' has no attribute '{name}'")
    from importlib import import_module

    found: object = getattr(import_module("orchestrate.api"), name)
    return found
