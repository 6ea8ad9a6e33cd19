"""What a check of a store finds, in order, and not more than anyone reads."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

KEPT_MAX = 200
"""Findings kept of each severity; the others are only counted."""


class Severity(Enum):
    """How bad a finding is."""

    WRONG = "wrong"
    LOST = "lost"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be: which file, which byte of it, and what."""

    severity: Severity
    path: str
    position: int
    what: str

    def __str__(self) -> str:
        return f"{self.path} at byte {self.position}: {self.what}" if self.path else self.what


@dataclass(slots=True)
class Findings:
    """All findings of a check."""

    kept: list[Finding] = field(default_factory=list)
    _counts: Counter[Severity] = field(default_factory=Counter)

    def count(self, severity: Severity) -> int:
        return self._counts[severity]

    def wrong(self, path: Path, position: int, what: str) -> None:
        self._add(Finding(Severity.WRONG, str(path), position, what))

    def wrong_text(self, what: str) -> None:
        """A sentence that names its file itself."""
        self._add(Finding(Severity.WRONG, "", 0, what))

    def lost(self, path: Path, position: int, what: str) -> None:
        self._add(Finding(Severity.LOST, str(path), position, what))

    def note(self, path: Path, position: int, what: str) -> None:
        self._add(Finding(Severity.NOTE, str(path), position, what))

    def _add(self, finding: Finding) -> None:
        self._counts[finding.severity] += 1
        if self._counts[finding.severity] <= KEPT_MAX:
            self.kept.append(finding)
