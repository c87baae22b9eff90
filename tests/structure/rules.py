"""The rules between modules, each as a function that lists every offender."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from tests.structure.modules import MODULES, Import, all_imports, imports_of, tree_of, within

# Which packages a package may import besides itself; `orchestrate`, the root, is open to all.
_FOUNDATION = {
    "interrupts",
    "record",
    "regex",
    "digest",
    "json_writer",
    "codes",
    "errors",
    "exits",
    "installation",
}
_VALUES = _FOUNDATION | {
    "diagnostics",
    "workspace",
    "catalogue",
    "transcript",
    "agent_flags",
    "agent_names",
    "git_head",
}
# What every reader may name: the plan and the recorded state are data.
_DATA = _VALUES | {"plan", "state"}
_SEAM = ("base", "liveness", "masking", "reasons")
LAYERS: dict[str, set[str]] = {
    "record": set(),
    "regex": set(),
    "interrupts": set(),
    "digest": {"json_writer"},
    "json_writer": set(),
    "codes": {"record"},
    "exits": {"record"},
    "errors": {"diagnostics", "exits", "record"},
    "installation": {"errors"},
    "diagnostics": _FOUNDATION,
    "workspace": _FOUNDATION,
    "catalogue": _FOUNDATION | {"workspace"},
    "transcript": {"record"},
    "agent_flags": set(),
    "agent_names": _FOUNDATION | {"diagnostics"},
    "git_head": {"regex"},
    # The store of checkpoints, for whoever takes, shows or restores them.
    "checkpoints": _FOUNDATION | {"git_head", "state.durable"},
    "plan": _FOUNDATION | {"diagnostics"},
    "lang": _FOUNDATION | {"diagnostics", "plan.expr"},
    "source": _VALUES,
    "dialects": _VALUES | {"plan", "lang", "source"},
    "compile": _VALUES | {"plan", "source", "dialects"},
    "state": _FOUNDATION | {"agent_names", "diagnostics", "plan"},
    "execute": _FOUNDATION,
    "agents": _VALUES,
    # The seam, not what is behind it: which executor runs a program is the application's choice.
    "engine": _DATA | {f"execute.{name}" for name in _SEAM} | {"agents", "checkpoints"},
    "app": _DATA
    | {"source", "lang", "dialects", "compile", "execute", "agents", "engine", "view"}
    | {"checkpoints"},
    "view": _DATA,
    "show": _DATA | {"view"},
    # Runs on other machines (ADR 0024). A run in a seat there publishes itself, by `fleet.publish`.
    # A worker starts engines as engines start programs: by a keeper (`fleet.engine`).
    "fleet": _DATA | {"app", "view", "show", "checkpoints", "git_head", "execute"},
    # The console: the application, for a browser and other clients (ADR 0018).
    "serve": _DATA | {"app", "view", "show"},
    "cli": _DATA | {"app", "view", "show", "serve", "fleet"},
    # It is for tests, which run the command as a user does.
    "api": _DATA | {"app", "view", "show"},
    "testing": _FOUNDATION | {"cli.main", "execute.fake"},
    "__main__": {"cli"},
}
# What each third-party package is for, and who may therefore use it.
THIRD_PARTY = {
    "click": "orchestrate.cli",
    "jsonschema": "orchestrate.engine.schemas",
    "referencing": "orchestrate.engine.schemas",
    # Of the standard library from Python 3.12 on.
    "_sha2": "orchestrate.digest",
    "ruamel": "orchestrate.source",
    "_ruamel_yaml": "orchestrate.source",
    # Draws the live view, and nothing else (ADR 0011).
    "rich": "orchestrate.show.live.drawing",
    # The extra `serve`.
    "starlette": "orchestrate.serve",
    "uvicorn": "orchestrate.serve",
    "h11": "orchestrate.serve.patience",
    # The extra `fleet` (ADR 0025).
    "cryptography": "orchestrate.fleet.keys",
    "temporalio": "orchestrate.fleet",
}
# Modules that import what they need when they need it, because start-up time depends on them
# (ADR 0006): the commands by name, the way to one of them, and a dialect for a file written in it.
_LAZY_IMPORTERS = {"orchestrate.__main__", "orchestrate.cli.group", "orchestrate.cli.main"}
_LAZY_DIALECTS = ("orchestrate.compile", "orchestrate.dialects")
MOST_LATE_IMPORTS = 10
# The imports in functions that stay, at most MOST_LATE_IMPORTS: (importer, imported) -> reason.
_HELP = "the help and the completion of a command load no compiler (ADR 0006)"
LATE_IMPORTS_WITH_REASON: dict[tuple[str, str], str] = {
    ("orchestrate.app.starting.start", "orchestrate.app.working.carry_out"): (
        "the keeper of a new run starts while the engine is loaded (performance.md)"
    ),
    ("orchestrate.cli.commands.validate", "orchestrate.app.definitions.check_context"): _HELP,
    ("orchestrate.app.files.checkpoints_of_run", "orchestrate.app.files.checkpoints"): (
        "a run that keeps no checkpoints pays nothing for them (edits.md)"
    ),
    ("orchestrate.app.definitions.find", "orchestrate.compile"): _HELP,
    ("orchestrate.app.config.load", "orchestrate.app.config.file"): (
        "most workspaces have no configuration, and commands that look need no YAML reader"
    ),
    ("orchestrate.app.definitions.check", "orchestrate.app.definitions.refused_settings"): (
        "most files give no agent settings, and are checked often"
    ),
    ("orchestrate.cli.reporting", "orchestrate.cli.telling"): (
        "what tells of a run is loaded while its keeper starts"
    ),
    ("orchestrate.app.files.worktrees", "orchestrate.app.files.worktree_files"): (
        "only a worktree with the files of a checkpoint needs the store of checkpoints"
    ),
    (
        "orchestrate.app.reading.standing",
        "orchestrate.agents.registry",
    ): "`status` needs the adapters only for a run whose session a person can go on in",
    ("orchestrate.compile", "orchestrate.source.explain"): (
        "only a file with mistakes needs what explains them"
    ),
}


def _short(module: str) -> str:
    return module.removeprefix("orchestrate.")


def _edge(found: Import) -> str:
    return f"{_short(found.importer)} -> {_short(found.imported)}"


def _ours() -> Iterator[Import]:
    """The imports between our own modules; the root holds only what everything may see."""
    for found in all_imports():
        if found.is_ours and "orchestrate" not in (found.importer, found.imported):
            yield found


def packages_without_a_layer() -> set[str]:
    return {_short(module).partition(".")[0] for module in MODULES} - {*LAYERS, "orchestrate"}


def imports_against_the_layers() -> set[str]:
    """Imports for type checking count: who names a type depends on it."""
    offenders = set()
    for found in _ours():
        layer = _short(found.importer).partition(".")[0]
        allowed = {layer, *LAYERS.get(layer, set())}
        if not any(within(_short(found.imported), package) for package in allowed):
            offenders.add(_edge(found))
    return offenders


def imports_of_the_keeper() -> list[str]:
    """Who looks behind the seam: the keeper is the local executor's own business (ADR 0015)."""
    return sorted(
        _edge(found)
        for found in _ours()
        if within(found.imported, "orchestrate.execute.keeper")
        and not within(found.importer, "orchestrate.execute")
    )


def printing_below_the_front() -> set[str]:
    """Where modules that only work print, or write to the process's own streams."""
    offenders = set()
    for module in MODULES:
        if any(within(module, f"orchestrate.{front}") for front in ("app", "view", "state")):
            for node in ast.walk(tree_of(module)):
                prints = isinstance(node, ast.Call) and ast.unparse(node.func) == "print"
                stream = isinstance(node, ast.Attribute) and ast.unparse(node).startswith(
                    ("sys.stdout", "sys.stderr", "sys.__std")
                )
                if prints or stream:
                    offenders.add(_short(module))
    return offenders


def third_party_imports_out_of_place() -> list[str]:
    return [
        str(found)
        for found in all_imports()
        if not found.is_ours
        and (top := found.imported.partition(".")[0]) not in sys.stdlib_module_names
        and not (top in THIRD_PARTY and within(found.importer, THIRD_PARTY[top]))
    ]


def late_imports() -> set[str]:
    """Imports of our own modules inside of functions, outside of where they are the point."""
    return {
        _edge(found)
        for found in _ours()
        if found.in_function
        and not found.for_types
        and found.importer not in _LAZY_IMPORTERS
        and not (found.importer == _LAZY_DIALECTS[0] and within(found.imported, _LAZY_DIALECTS[1]))
        and (found.importer, found.imported) not in LATE_IMPORTS_WITH_REASON
    }


def imports_in_cycles() -> set[str]:
    """Every import between two modules that reach each other, those in functions included."""
    graph = {
        module: {
            found.imported
            for found in imports_of(module)
            if found.imported in MODULES and not found.for_types
        }
        - {"orchestrate", module}
        for module in MODULES
    }
    part_of = components(graph)
    return {
        f"{_short(importer)} -> {_short(imported)}"
        for importer, seen in graph.items()
        for imported in seen
        if part_of[importer] == part_of[imported]
    }


def components(graph: dict[str, set[str]]) -> dict[str, int]:
    """A number per module, the same for modules that reach each other (Kosaraju)."""
    order: list[str] = []
    seen: set[str] = set()
    for start in graph:
        _walk(start, graph, seen, order)
    backwards: dict[str, set[str]] = {module: set() for module in graph}
    for importer, imports in graph.items():
        for imported in imports:
            backwards[imported].add(importer)
    part_of: dict[str, int] = {}
    seen = set()
    for number, start in enumerate(reversed(order)):
        reached: list[str] = []
        _walk(start, backwards, seen, reached)
        part_of.update(dict.fromkeys(reached, number))
    return part_of


def _walk(start: str, graph: dict[str, set[str]], seen: set[str], finished: list[str]) -> None:
    """Depth first; a module is finished after everything that it reaches."""
    if start in seen:
        return
    seen.add(start)
    for module in sorted(graph[start]):
        _walk(module, graph, seen, finished)
    finished.append(start)


RULES = {
    "cycle": imports_in_cycles,
    "late import": late_imports,
    "layer": imports_against_the_layers,
    "printing": printing_below_the_front,
}
