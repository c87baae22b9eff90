"""Writes JSON on one line, by an encoder that is made once: `json` makes another for each value.

A step writes several, mostly short ones, of which that took a fifth of the time.
"""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable
from typing import Any


def json_writer(
    *,
    sort_keys: bool = False,
    allow_nan: bool = True,
    default: Callable[[Any], Any] | None = None,
) -> Callable[[Any], str]:
    """What `json.dumps` does in ASCII without blanks; a value within itself is a
    `RecursionError`."""
    plain = json.JSONEncoder(
        sort_keys=sort_keys, allow_nan=allow_nan, default=default, separators=(",", ":")
    )
    in_c: Any = getattr(json.encoder, "c_make_encoder", None)
    if in_c is None:  # another Python
        return plain.encode
    encode = in_c(
        None, plain.default, json.encoder.encode_basestring_ascii, None,
        plain.key_separator, plain.item_separator, sort_keys, False, allow_nan,
    )  # fmt: skip
    return lambda value: "".join(encode(value, 0))
