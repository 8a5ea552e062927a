"""What an audit gives back: findings, the worst first, and what was measured."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from truerank import notebook, typesetting

__all__ = ["EXAMPLES", "SEVERITIES", "Audit", "Finding", "Found"]

SEVERITIES = ("error", "warning", "note")
EXAMPLES = 5


@dataclass(frozen=True)
class Finding:
    """One thing that smells."""

    name: str
    severity: str
    """error: scores are wrong or misleading; warning: look at it; note: good to know."""
    count: int
    rows: tuple[tuple[int, ...], ...]
    """Examples: single rows, or pairs of rows that belong together."""
    message: str
    advice: str

    def sentences(self) -> list[str]:
        """What was found, rows for example, and what to do."""
        shown = ", ".join(" and ".join(map(str, rows)) for rows in self.rows)
        more = ", ..." if self.count > len(self.rows) else ""
        return [self.message, *([f"rows {shown}{more}"] if self.rows else []), self.advice]


@dataclass(frozen=True)
class Found:
    """What one check found and measured."""

    findings: list[Finding] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)
    """The facts in words."""

    def measure(self, name: str, value: Any, sentence: str) -> None:
        """Add what was measured: as a plain value, and as a sentence."""
        self.facts[name] = value
        self.sentences.append(sentence)

    def add(
        self,
        name: str,
        severity: str,
        number: int,
        rows: Sequence[Sequence[int]],
        message: str,
        advice: str,
    ) -> None:
        """Add a finding that shows some of its rows."""
        some = tuple(tuple(int(row) for row in group) for group in rows[:EXAMPLES])
        self.findings.append(Finding(name, severity, number, some, message, advice))


@dataclass(frozen=True)
class Audit:
    """All findings, the worst first; it prints as a list."""

    findings: list[Finding]
    facts: dict[str, Any]
    """What was measured, flagged or not."""
    sentences: list[str] = field(default_factory=list)
    """The same in words."""

    @property
    def clean(self) -> bool:
        """Whether nothing is worse than a note."""
        return all(finding.severity == "note" for finding in self.findings)

    def __getitem__(self, name: str) -> Finding:
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise KeyError(f"nothing was found under {name!r}")

    def __contains__(self, name: object) -> bool:
        return any(finding.name == name for finding in self.findings)

    def __str__(self) -> str:
        lines = []
        for finding in self.findings:
            message, *others = finding.sentences()
            lines.append(f"{finding.severity}: {message}")
            lines += [f"  {sentence}" for sentence in others]
        lines += ["Nothing above a note."] if self.clean else []
        lines += ["", "Measured:", *(f"  {sentence}" for sentence in self.sentences)]
        return "\n".join(typesetting.fill(lines, typesetting.screen_width()))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [notebook.marked(found.severity, found.sentences()) for found in self.findings]
        clean = ["Nothing above a note."] if self.clean else []
        measured = [notebook.heading("Measured"), notebook.paragraphs(self.sentences)]
        return notebook.block(*parts, notebook.paragraphs(clean), *measured)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        findings = [
            vars(finding) | {"rows": [*map(list, finding.rows)]} for finding in self.findings
        ]
        return {"format": "truerank-audit", "findings": findings, "facts": self.facts}

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The JSON text; written to `path` in one step if given."""
        from truerank.files import to_json

        return to_json(self.to_dict(), path)
