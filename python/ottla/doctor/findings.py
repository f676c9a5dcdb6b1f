"""The finding of a check: how bad it is, what was found, and what to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    SKIPPED = "skipped"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. `todo` is empty where nothing is to be done."""

    check: str
    level: Level
    found: str
    todo: str = ""


@dataclass(slots=True)
class Report:
    """Findings in the order in which they were made."""

    target: str
    findings: list[Finding] = field(default_factory=list)

    def ok(self, check: str, found: str) -> None:
        self.findings.append(Finding(check, Level.OK, found))

    def skipped(self, check: str, found: str, todo: str = "") -> None:
        self.findings.append(Finding(check, Level.SKIPPED, found, todo))

    def warning(self, check: str, found: str, todo: str) -> None:
        self.findings.append(Finding(check, Level.WARNING, found, todo))

    def problem(self, check: str, found: str, todo: str) -> None:
        self.findings.append(Finding(check, Level.PROBLEM, found, todo))

    @property
    def worst(self) -> Level:
        levels = {finding.level for finding in self.findings}
        return next((level for level in (Level.PROBLEM, Level.WARNING) if level in levels), Level.OK)

    @property
    def exit_code(self) -> int:
        """0 all is well, 1 there are warnings, 2 there are problems."""
        return {Level.OK: 0, Level.WARNING: 1, Level.PROBLEM: 2}[self.worst]

    def as_json(self) -> dict[str, object]:
        findings = [asdict(finding) for finding in self.findings]
        return {"target": self.target, "level": self.worst, "findings": findings}


def some(names: list[str], most: int = 5) -> str:
    """A few of many names."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
