"""python -m tests.stored.record [ENTRY ...]: store the digests of what is computed now.

An entry is named as in digests.json, or by its metric alone ("opis" is every opis@...). Entries
that are new are stored in any case. A changed entry that was not named is printed, stays as it was
and makes the command fail. A digest changes only in a commit that names the metric and the reason.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.stored.entries import Entries, entries
from tests.stored.evaluations import EVALUATIONS, run
from tests.stored.others import OTHERS

ALL = EVALUATIONS | OTHERS
PATH = Path(__file__).with_name("digests.json")


def stored() -> dict[str, Entries]:
    """Return the stored entries of each evaluation; the file has them by metric."""
    found: dict[str, Entries] = {}
    for entry, digests in json.loads(PATH.read_text()).items() if PATH.exists() else ():
        for name, digest in digests.items():
            found.setdefault(name, {})[entry] = digest
    return found


def store(results: dict[str, Entries]) -> None:
    by_entry: dict[str, dict[str, str]] = {}
    for name in ALL:
        for entry, digest in results.get(name, {}).items():
            by_entry.setdefault(entry, {})[name] = digest
    PATH.write_text(json.dumps(dict(sorted(by_entry.items())), indent=0) + "\n")


def computed(name: str) -> Entries:
    return entries(run(ALL[name]))


def main(*parts: str) -> int:
    """Store what is new or gone, and of what has changed the entries that were named."""
    before, unnamed = stored(), 0
    after = {name: computed(name) for name in ALL}
    for name in ALL:
        was, now = before.get(name, {}), after[name]
        for entry in sorted(was.keys() | now.keys()):
            if was.get(entry) == now.get(entry):
                continue
            how = "is new" if entry not in was else "has changed" if entry in now else "is gone"
            if entry in was and not {entry, entry.split("@")[0]} & set(parts):
                how += ", was not named and stays as it was"
                now[entry] = was[entry]
                unnamed += 1
            print(f"{entry} of {name} {how}")  # noqa: T201
    store(after)
    return 1 if unnamed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
