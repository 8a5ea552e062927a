"""Files that were whole: bytes cut, flipped or left out, and JSON in which a thing is another."""

from __future__ import annotations

import random
from typing import Any

from tests.fuzz.escapes import ROWS


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Cut, flipped, overwritten, doubled, or with pieces left out."""
    kind = draw.randrange(6)
    found = bytearray(content)
    if kind == 0:
        return content[: draw.randrange(len(content))]
    if kind == 1:
        start = draw.randrange(len(content))
        del found[start : start + draw.randint(1, 40)]
    elif kind == 2:
        start = draw.randrange(len(content))
        found[start:start] = draw.randbytes(draw.randint(1, 20))
    else:
        # Headers are short and lengths sit in them: half of the damage is near an end.
        for _ in range(draw.choice([1, 1, 1, 2, 8, 40])):
            near = draw.choice([len(content), min(160, len(content))])
            place = draw.randrange(near) * draw.choice([1, -1])
            found[place] = draw.choice([found[place] ^ (1 << draw.randrange(8)), 0, 255])
    return bytes(found)


JUNK: list[Any] = [
    *(None, True, False, 0, 1, -1, 2**70, 3.5, float("nan"), "", "x", [], {}, [[]], [None]),
    *({"a": 1}, [1, "a"], ["a"] * ROWS, [0] * ROWS, [10**6] * ROWS, list(range(-3, ROWS - 3))),
]


def changed_inside(value: Any, draw: random.Random) -> Any:
    """A copy of a JSON value in which one thing, at some depth, is gone or another."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(list(value))
        changed = dict(value)
        if draw.random() < 0.3:
            del changed[key]
        else:
            changed[key] = changed_inside(value[key], draw)
        return changed
    if isinstance(value, list) and value and draw.random() < 0.5:
        place = draw.randrange(len(value))
        return [*value[:place], changed_inside(value[place], draw), *value[place + 1 :]]
    return draw.choice(JUNK)
