"""Data as a page carries it: names and texts as JSON, numbers as typed arrays, all of it compressed.

A packed tree is the gzip of a length, the JSON, and the arrays behind it. In the JSON an array stands as
``{"$": [offset, length, type]}``; `page.js` puts it back. As text it is base64, which cannot be mistaken for
anything else in a page.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

ALIGNMENT = 8  # bytes, as typed arrays of doubles need
FAST = 6  # of gzip's levels: a better one takes longer than it saves
TYPES = {"float32": "<f4", "float64": "<f8", "int32": "<i4", "uint8": "|u1"}


def pack(tree: Mapping[str, Any]) -> bytes:
    """A tree of plain values and arrays as compressed bytes."""
    pieces: list[bytes] = []
    place = 0

    def plain(value: Any) -> Any:
        nonlocal place
        if isinstance(value, Mapping):
            return {str(key): plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if not isinstance(value, np.ndarray):
            return value
        content = value.astype(TYPES[value.dtype.name]).tobytes()
        entry = {"$": [place, int(value.size), value.dtype.name]}
        content += bytes(-len(content) % ALIGNMENT)
        pieces.append(content)
        place += len(content)
        return entry

    text = json.dumps(plain(tree), allow_nan=False).encode()
    text += b" " * (-(len(text) + ALIGNMENT) % ALIGNMENT)
    head = len(text).to_bytes(ALIGNMENT, "little")
    return gzip.compress(head + text + b"".join(pieces), FAST, mtime=0)


def as_text(packed: bytes) -> str:
    """Packed data as it stands inside a page."""
    return base64.b64encode(packed).decode()
