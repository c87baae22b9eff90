"""libyaml's parser, as ruamel.yaml.clib has it, without loading the rest of ruamel.yaml.

That rest was a tenth of the time of a one-step run. The C part needs the marks, tokens, events and
nodes of ruamel, and of eight other modules no more than an error each; but these, and the package
itself, load everything. So while the C part is loaded, errors of the same kind stand in for them.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

_COMMAND = "orchestrate.__main__"
_PACKAGE = "ruamel.yaml"
# What the C part takes from modules that it has no other use for: those with a place in the text,
# and those without.
_MARKED = {
    "scanner": "ScannerError",
    "parser": "ParserError",
    "composer": "ComposerError",
    "constructor": "ConstructorError",
}
_PLAIN = {
    "emitter": "EmitterError",
    "serializer": "SerializerError",
    "representer": "RepresenterError",
}


def c_parser() -> Any:
    """The class of libyaml's parser; `ImportError` where it is not installed."""
    if _is_command() and _PACKAGE not in sys.modules and "_ruamel_yaml" not in sys.modules:
        return _load_alone()
    from _ruamel_yaml import CParser

    return CParser


def _is_command() -> bool:
    """Are we the command, and not a program that uses us, perhaps beside ruamel?"""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return _COMMAND in sys.modules or getattr(spec, "name", "") == _COMMAND


def _load_alone() -> Any:
    spec = find_spec(_PACKAGE)
    if spec is None:
        raise ImportError("ruamel.yaml is not installed")
    sys.modules[_PACKAGE] = module_from_spec(spec)
    stand_ins = [_PACKAGE]
    try:
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        kinds: dict[str, type[Exception]] = {_MARKED[name]: MarkedYAMLError for name in _MARKED}
        kinds |= {_PLAIN[name]: YAMLError for name in _PLAIN}
        errors: dict[str, Any] = {
            name: type(error, (kinds[error],), {}) for name, error in (_MARKED | _PLAIN).items()
        }
        errors["reader"] = type("ReaderError", (YAMLError,), {"__init__": _keep_reason})
        for name, error in errors.items():
            module = ModuleType(f"{_PACKAGE}.{name}")
            setattr(module, error.__name__, error)
            sys.modules[module.__name__] = module
            stand_ins.append(module.__name__)
        from _ruamel_yaml import CParser
    finally:
        # A later import of ruamel.yaml, as by our pure parser, gets the real modules.
        for name in stand_ins:
            sys.modules.pop(name, None)
    return CParser


def _keep_reason(self: Any, *about: Any) -> None:
    """As ruamel's error of a character that YAML does not allow, of which we tell the reason."""
    self.name, self.position, self.character, self.encoding, self.reason = about
