"""python -m tests.stored.record [part of a name]: store the digests of what is computed now.

Prints what has changed. A digest changes only in a commit that names the metric and the reason.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.stored.digest import digest
from tests.stored.evaluations import EVALUATIONS, run

PATH = Path(__file__).with_name("digests.json")


def stored() -> dict[str, dict[str, str]]:
    return json.loads(PATH.read_text()) if PATH.exists() else {}


def computed(name: str) -> dict[str, str]:
    scores, intervals = run(EVALUATIONS[name])
    return {"scores": digest(scores), "intervals": digest(intervals)}


def main(part: str = "") -> None:
    before = stored()
    after = {
        name: computed(name) if part in name else before[name]
        for name in EVALUATIONS
        if part in name or name in before
    }
    for name in before.keys() | after.keys():
        if before.get(name) != after.get(name):
            print(name, "is new" if name not in before else "has changed")  # noqa: T201
    PATH.write_text(json.dumps(after, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
