"""What is stored of an evaluation: an entry for each metric, curve and fact, scores and intervals.

An entry is named after its metric, or "curve NAME", "provenance FACT", "comparison". So a change of
one metric changes the entries of that metric and nothing else.
"""

from __future__ import annotations

from typing import Any

from tests.stored.digest import digest
from tests.stored.evaluations import Found
from tests.stored.reasons import keys_of

Entries = dict[str, str]
SENTENCES = {"reason", "interval_reason", "method", "truth", "excluded", "no_mate"}
"""Fields of scores, of provenance and of comparisons that hold sentences."""


def entries(found: Found) -> Entries:
    """Return two digests for each entry: of its scores and of its intervals, - for neither."""
    scores, intervals = split(found[0]), split(found[1])
    names = sorted(scores.keys() | intervals.keys())
    return {name: f"{short(scores, name)} {short(intervals, name)}" for name in names}


def split(values: dict[str, Any]) -> dict[str, Any]:
    """One value for each entry, with keys in the place of sentences."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name == "skipped":
            found |= {metric: {"skipped": keys_of(reason)} for metric, reason in value.items()}
        elif name == "provenance" and value is not None:
            found |= {f"provenance {fact}": keyed({fact: one}) for fact, one in value.items()}
        else:
            found[name] = keyed(value)
    return found


def keyed(value: Any) -> Any:
    """The same, with keys in the place of the sentences of a mapping's fields."""
    if isinstance(value, list):
        return [keyed(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {name: keys_of(one) if name in SENTENCES else keyed(one) for name, one in value.items()}


def short(values: dict[str, Any], name: str) -> str:
    """Ten digits: one in 10^12 changes would go unseen."""
    return digest(values[name])[:10] if name in values else "-"
