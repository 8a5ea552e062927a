"""What this release no longer has, by the name that a call may still use: said for one release."""

from __future__ import annotations

import sys

__all__ = ["REMOVED"]

REMOVED = {
    name: f"{name} was removed: {instead}."
    for name, instead in {
        "truerank.planning": "docs/scale.md has its figures as a table, to be worked out by hand",
        "truerank plan": "docs/scale.md has its figures as a table, to be worked out by hand",
        "set_precision": "mrp@tau= is the mean precision at the relevant items accepted at tau",
        "set_recall": "tar@tau= is the share of the positive pairs accepted at the distance tau",
        "the band of mrp": "mrp@tau= or mrp@far= has an interval at each threshold",
        "the band of mvp": "mvp@tau= or mvp@far= has an interval at each threshold",
        "the band of utility": "opis has an interval",
    }.items()
}
"""The sentence about each module ("truerank.NAME"), command ("truerank NAME"), metric and
band."""


class _Finder:
    """The last one that is asked for a module: no other has found it."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name in REMOVED:
            raise ImportError(REMOVED[name], name=name)


sys.meta_path.append(_Finder)
