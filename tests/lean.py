"""Starts a fake program: `python -I -S lean.py SCRIPT ARGUMENTS...`, in half of the usual time.

`json` imports `re` and what that needs, which takes longer than all that a fake program does. Its
compiled half is enough for them. A script of ours that has a `main` is compiled only once.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

try:
    import _json
except ImportError:  # pragma: no cover - another Python
    pass
else:
    compiled: Any = _json
    lean: Any = type(sys)("json")

    class _Context:
        strict = True
        object_hook = object_pairs_hook = None
        parse_float = float
        parse_int = int
        parse_constant = float

    _scan = compiled.make_scanner(_Context)
    _parts = compiled.make_encoder(
        {}, None, compiled.encode_basestring_ascii, None, ": ", ", ", False, False, True
    )
    lean.loads = lambda text: _scan(text.strip(), 0)[0]
    lean.load = lambda file: lean.loads(file.read())

    def _dumps(value: Any, **more: Any) -> str:
        if not more:
            return "".join(_parts(value, 0))
        del sys.modules["json"]
        import json

        return json.dumps(value, **more)

    lean.dumps = _dumps
    sys.modules["json"] = lean

del sys.argv[0]
folder, name = os.path.split(sys.argv[0])
if folder.startswith(os.path.dirname(os.path.abspath(__file__))):
    sys.path.insert(0, folder)
    sys.exit(__import__(name[:-3]).main())
with open(sys.argv[0], encoding="utf-8") as file:
    exec(compile(file.read(), sys.argv[0], "exec"), {"__name__": "__main__"})
