"""A statement about a model, with what was measured and how far it may be off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class Measured(NamedTuple):
    """tolerance: the largest value at which the statement holds; None: told, not judged."""

    what: str
    value: float
    tolerance: float | None = None

    @property
    def holds(self) -> bool:
        return self.tolerance is None or self.value <= self.tolerance  # NaN does not


@dataclass(frozen=True, slots=True)
class Fact:
    name: str
    statement: str
    measured: tuple[Measured, ...]

    @property
    def holds(self) -> bool:
        return all(measured.holds for measured in self.measured)

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "statement": self.statement,
            "holds": self.holds,
            "measured": [{**m._asdict(), "holds": m.holds} for m in self.measured],
        }
