"""report: what a run says afterwards: instructions, seconds, warnings, and the provenance if it was asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from layoutlab.ptx.parse import Instruction, PtxError

if TYPE_CHECKING:
    from layoutlab.ptx.provenance import Provenance


@dataclass
class Finding:
    """Something suspicious that a PTX line did, with its first occurrence and how often it happened."""

    kind: str
    line: int
    message: str
    count: int = 1

    def __str__(self) -> str:
        times = "" if self.count == 1 else f" ({self.count} times)"
        return f"{self.message}{times}"


class Findings:
    """Findings by kind and PTX line."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], Finding] = {}

    def add(self, kind: str, instruction: Instruction, message: str) -> None:
        key = (kind, instruction.line)
        if key in self._found:
            self._found[key].count += 1
        else:
            self._found[key] = Finding(kind, instruction.line, f"{instruction.where}: {message}")

    def extend(self, findings: list[Finding]) -> None:
        for finding in findings:
            known = self._found.setdefault((finding.kind, finding.line), finding)
            if known is not finding:
                known.count += finding.count

    def all(self) -> list[Finding]:
        return list(self._found.values())


@dataclass
class Report:
    """The outcome of a replay.

    `instructions` counts one for each warp that executed an instruction; `warnings` names reads of bytes that nobody
    wrote and instructions that were passed over.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    instructions: int = 0
    seconds: float = 0.0
    warnings: list[Finding] = field(default_factory=list)
    provenance: Provenance | None = None

    def then(self, other: Report) -> Report:
        """This report followed by another launch's."""
        findings = Findings()
        findings.extend(self.warnings)
        findings.extend(other.warnings)
        return Report(
            f"{self.kernel}, {other.kernel}", other.grid, other.block, self.instructions + other.instructions,
            self.seconds + other.seconds, findings.all(), other.provenance,
        )  # fmt: skip

    @property
    def instructions_per_second(self) -> float:
        return self.instructions / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        lines = [
            f"{self.kernel}: grid {self.grid}, block {self.block}: {self.instructions} warp-instructions in "
            f"{self.seconds:.3f} s ({self.instructions_per_second / 1000:.0f} thousand a second)"
        ]
        return "\n".join(lines + [f"  warning: {w}" for w in self.warnings])


class Deadlock(PtxError):
    """No warp can go on and no started work is left; the message says what each warp waits for."""
