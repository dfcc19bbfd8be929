"""A record of the gate: what was measured, against which limits, and the verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kvtool.gate.score import Limits, Score, failures
from kvtool.gate.subject import Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRecord:
    """model: its name, for people. created: UTC, ISO 8601. scores: by situation, then over all."""

    model: str
    created: str
    device: str
    subject: Subject
    limits: Limits
    scores: tuple[Score, ...]

    @property
    def pooled(self) -> Score:
        return self.scores[-1]

    @property
    def failures(self) -> list[str]:
        return failures(self.pooled, self.limits)

    @property
    def passed(self) -> bool:
        return not self.failures

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; `from_dict` reads it back."""
        return {
            "key": self.subject.key,
            "passed": self.passed,
            "failures": self.failures,
            "model": self.model,
            "created": self.created,
            "device": self.device,
            "subject": asdict(self.subject),
            "limits": self.limits._asdict(),
            "pooled": self.pooled._asdict(),
            "situations": [score._asdict() for score in self.scores[:-1]],
        }

    @classmethod
    def from_dict(cls, document: Any) -> GateRecord:
        """Raises `KeyError`, `TypeError` or `ValueError` for what is no record."""
        record = cls(
            model=str(document["model"]),
            created=str(document["created"]),
            device=str(document["device"]),
            subject=Subject(**document["subject"]),
            limits=Limits(**document["limits"]),
            scores=tuple(Score(**row) for row in (*document["situations"], document["pooled"])),
        )
        if record.as_dict() != document:
            raise ValueError("its parts contradict each other")
        return record
