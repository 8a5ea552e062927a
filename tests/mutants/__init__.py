"""Small mistakes, each of which some test must see.

A mutant is a text file here: a sentence that says what the mistaken program does, the tests that
see it, and the mistake, as text of the package that is found once in src/truerank, wherever that
is, and the text in its place. Who rewrites the place writes the same mistake anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Mutant", "mutants"]

FOLDER = Path(__file__).parent
PARTS = ("=== tests\n", "=== old\n", "=== new\n")


@dataclass(frozen=True)
class Mutant:
    """What a file says."""

    name: str
    sentence: str
    tests: tuple[str, ...]
    old: str
    new: str

    @staticmethod
    def read(path: Path) -> Mutant:
        parts, rest = [], path.read_text(encoding="utf-8")
        for mark in PARTS:
            part, _, rest = rest.partition(mark)
            parts.append(part)
        sentence, tests, old = parts
        return Mutant(path.stem, " ".join(sentence.split()), tuple(tests.splitlines()), old, rest)

    def places(self, package: Path) -> list[Path]:
        """The files that have its text, one for each time."""
        texts = ((path, path.read_text(encoding="utf-8")) for path in sorted(package.rglob("*.py")))
        return [path for path, text in texts for _ in range(text.count(self.old))]

    def put_into(self, package: Path) -> Path:
        """Make the mistake; the file in which it is."""
        (path,) = self.places(package)
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")
        return path


def mutants() -> list[Mutant]:
    return [Mutant.read(path) for path in sorted(FOLDER.glob("*.txt"))]
