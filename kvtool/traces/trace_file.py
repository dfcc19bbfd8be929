"""One file of a trace: plain or gzip, JSON Lines, a JSON list, one JSON document, or lines."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, cast

from kvtool.errors import InputError
from kvtool.traces.json_list import json_list
from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.record import Record
from kvtool.traces.strict_json import parse_object
from kvtool.traces.trace_request import Json, Place

GZIP_MAGIC = b"\x1f\x8b"
UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
HEAD_RECORDS = 32  # what a format is recognised by; fewer where they are long
HEAD_CHARACTERS = 1 << 18
FIRST_LINE = 1 << 16  # bytes; a longer one holds a whole record
NOT_UTF8 = "the record is not UTF-8 text"
GOES_ON = (b"{", b"[", b",", b":")

Form = Literal["lines", "list", "document"]


class Head(NamedTuple):
    """The first records of a file. records: the JSON objects among them (of a document: itself).
    lines: its first lines that are not blank, e.g. the header of a CSV file; none of a list.
    bad: the first of its records that is no JSON object, as "file:line: reason"; or empty.
    """

    name: str
    form: Form
    records: tuple[Json, ...]
    lines: tuple[str, ...]
    bad: str = ""

    @property
    def first(self) -> Json:
        """The first record, empty where there is none."""
        return self.records[0] if self.records else {}


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A file that can be read again and again. name: how messages call it. keep: what must live as
    long as this object does, e.g. the spooled copy of standard input."""

    name: str
    path: Path
    keep: object = None

    def lines(self, log: ReadLog) -> Iterator[tuple[Place, str]]:
        """Lines that are not blank, with their numbers from 1; byte order mark and line ends are
        taken off. A line that is not UTF-8 is a bad record."""
        with self._bytes() as stream:
            for number, raw in enumerate(stream, start=1):
                line = raw.removeprefix(UTF8_MARK).strip() if number == 1 else raw.strip()
                if not line:
                    continue
                place = Place(self.name, number)
                try:
                    yield place, line.decode()
                except UnicodeDecodeError as error:
                    byte = f"byte {error.start + 1} of the line"
                    log.refuse(place, BadRecord(NOT_UTF8, byte))

    def records(self, log: ReadLog) -> Iterator[Record]:
        """The JSON objects of the file, whichever way they are written: one a line, the elements
        of a list (read piece by piece), or the one document. Anything else is a bad record."""
        return _parsed(self._texts(log), log)

    def head(self) -> Head:
        """Raises `InputError` for a file that is empty or cannot be read; bad records are left
        out."""
        log, form = ReadLog(lenient=True), self.form()
        lines = _start(self.lines(log)) if form != "list" else []
        if form != "list" and not lines and not log.skipped:
            raise InputError(
                f"{self.name} is empty: a trace has at least one request.",
                hint="Was it written to its end, and is it the right file?",
            )
        records = tuple(record.value for record in _parsed(_start(self._texts(log)), log))
        return Head(self.name, form, records, tuple(text for _, text in lines), log.first_refused)

    def form(self) -> Form:
        """How records are written, told by the first line: in a file with one a line it is whole,
        a list or document goes on after it."""
        with self._bytes() as stream:
            first = stream.readline(FIRST_LINE).removeprefix(UTF8_MARK)
            while first and not first.strip():
                first = stream.readline(FIRST_LINE)
        if first.lstrip().startswith(b"["):
            return "list"
        goes_on = first.lstrip().startswith(b"{") and first.rstrip().endswith(GOES_ON)
        return "document" if goes_on and first.endswith(b"\n") else "lines"

    def _texts(self, log: ReadLog) -> Iterator[tuple[Place, str]]:
        """The JSON text of each record."""
        form = self.form()
        if form == "lines":
            yield from self.lines(log)
        elif form == "document":
            with self._text() as stream:
                yield Place(self.name, 1), stream.read()
        else:
            yield from self._elements(log)

    def _elements(self, log: ReadLog) -> Iterator[tuple[Place, str]]:
        number = 0
        try:
            with self._text() as stream:
                for number, text in enumerate(json_list(stream), start=1):
                    yield Place(self.name, number, in_list=True), text
        except BadRecord as fault:  # where an element ends is unknown: so is where the next begins
            log.refuse(Place(self.name, number + 1, in_list=True), fault)

    @contextmanager
    def _text(self) -> Iterator[io.TextIOWrapper]:
        with self._bytes() as stream:
            try:
                yield io.TextIOWrapper(stream, encoding="utf-8-sig")
            except UnicodeDecodeError as error:
                raise InputError(f"{self.name} is not UTF-8 text: {error.reason}.") from None

    @contextmanager
    def _bytes(self) -> Iterator[BinaryIO]:
        """The uncompressed bytes. Raises `InputError` for what cannot be opened or unpacked."""
        try:
            with self.path.open("rb") as stream:
                start = stream.peek(2)[:2]
                if start in UTF16_MARKS:
                    raise InputError(
                        f"{self.name} is UTF-16 text; traces are UTF-8.",
                        hint="Convert it: iconv -f UTF-16 -t UTF-8.",
                    )
                packed = start == GZIP_MAGIC
                yield _unpacked(stream) if packed else stream
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{self.name} is damaged gzip data: {error}.") from None
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(f"{self.name} cannot be read: {reason}.") from None


def _parsed(texts: Iterable[tuple[Place, str]], log: ReadLog) -> Iterator[Record]:
    for place, text in texts:
        try:
            record = Record(place, parse_object(text, place, log))
        except BadRecord as fault:
            log.refuse(place, fault)
        else:
            yield record


def _start(texts: Iterable[tuple[Place, str]]) -> list[tuple[Place, str]]:
    """As many as a head holds."""
    found: list[tuple[Place, str]] = []
    characters = 0
    for place, text in islice(texts, HEAD_RECORDS):
        found.append((place, text))
        characters += len(text)
        if characters > HEAD_CHARACTERS:
            break
    return found


def _unpacked(stream: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=stream))))
