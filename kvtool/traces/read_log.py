"""What a reading of a trace found: bad records, refused or counted, and notes for the user."""

from __future__ import annotations

from collections import Counter

from kvtool.errors import InputError
from kvtool.traces.trace_request import Place

SHOWN_PLACES = 3


class BadRecord(Exception):
    """A record that is no request. reason: the same for all records with this fault; shown: what
    this one has instead, e.g. "it is -5"."""

    def __init__(self, reason: str, shown: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.shown = shown

    def __str__(self) -> str:
        return f"{self.reason}: {self.shown}" if self.shown else self.reason


class ReadLog:
    """skipped: records left out, by reason; places: of the first of them. first_refused: the very
    first, as "file:line: reason", or empty. A note is kept once, with the place it was first true
    of and how many records it was said of."""

    def __init__(self, *, lenient: bool = False) -> None:
        self.lenient = lenient
        self.skipped: Counter[str] = Counter()
        self.places: dict[str, list[Place]] = {}
        self.first_refused = ""
        self._notes: Counter[str] = Counter()
        self._first: dict[str, Place] = {}

    def refuse(self, place: Place, fault: BadRecord) -> None:
        """Raises `InputError` "file:line: reason"; when lenient, counts and returns."""
        if not self.lenient:
            raise InputError(
                f"{place}: {fault}.",
                hint="--lenient skips such records, counts them and says so.",
            )
        self.first_refused = self.first_refused or f"{place}: {fault}"
        self.skipped[fault.reason] += 1
        if self.skipped[fault.reason] <= SHOWN_PLACES:
            self.places.setdefault(fault.reason, []).append(place)

    def note(self, text: str, place: Place | None = None) -> None:
        """A warning about the whole trace, or about records like the one at `place`; `text` is the
        same for all of them."""
        self._notes[text] += 1
        if place is not None:
            self._first.setdefault(text, place)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self._said(text, count) for text, count in self._notes.items())

    def _said(self, text: str, count: int) -> str:
        if (place := self._first.get(text)) is None:
            return f"{text}."
        return f"{text} ({count:,} record{'s' * (count != 1)}, the first at {place})."
