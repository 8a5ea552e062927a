"""What a reproduction is asked for: where it is kept, how much is run, on which files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from truerank.reproduce.ledger import Clock

__all__ = ["Request"]


@dataclass(frozen=True)
class Request:
    """One call of `truerank reproduce`."""

    folder: Path
    """Where all that is needed to go on is kept."""
    quick: bool = False
    jobs: int = 1
    clock: Clock = field(default_factory=lambda: Clock(None))
    files: Mapping[str, Path] = field(default_factory=dict)
    """Files of the user by name: phocnet, grocery, or a data set's own name."""
    quiet: bool = True

    def file(self, name: str) -> Path | None:
        """A file of the user, None if none was given."""
        return self.files.get(name)
