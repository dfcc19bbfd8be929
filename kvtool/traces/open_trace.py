"""A trace on disk as requests that can be iterated again and again, whatever its format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from kvtool.errors import InputError
from kvtool.traces.consistency import Consistency, Kind
from kvtool.traces.dependencies import refuse_circles, refuse_missing
from kvtool.traces.order import Indexed, Stream, in_order, merged
from kvtool.traces.read_log import ReadLog
from kvtool.traces.recognise import Recognised, recognise
from kvtool.traces.request_ids import UniqueIds
from kvtool.traces.sources import find_files
from kvtool.traces.survey import Survey, accepted
from kvtool.traces.trace_file import TraceFile
from kvtool.traces.trace_format import Format
from kvtool.traces.trace_request import Place, TraceRequest
from kvtool.traces.warnings import warnings_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """Requests in the order of time where all have one, else as written. Every iteration reads the
    files again; only requests that are out of order are held.

    format: and why it was recognised. kind: what prompts are. block_size: tokens, of hash ids.
    skipped: records left out, by reason; skipped_places: the first of them. timed: every request
    has a time of arrival. several_predecessors: hash ids that follow different ones; 0: they are
    chained, and reuse at another position is not measurable; None: no hash ids.

    survey: what the order, the ids and the acceptance of requests rest on.
    """

    format: Format
    why: str
    files: tuple[TraceFile, ...]
    kind: Kind
    block_size: int | None
    several_predecessors: int | None
    warnings: tuple[str, ...]
    skipped: Mapping[str, int]
    skipped_places: Mapping[str, Sequence[Place]]
    lenient: bool
    survey: Survey

    def __len__(self) -> int:
        return self.survey.requests

    def __iter__(self) -> Iterator[TraceRequest]:
        return (request for _, request in self.indexed())

    @property
    def timed(self) -> bool:
        return self.survey.timed

    def indexed(self) -> Iterator[Indexed]:
        """The same, with each request's index in the order in which the files are written."""
        taken: set[str] = set()
        streams = [self._stream(number, taken) for number in range(len(self.files))]
        if self.timed and len(streams) > 1:
            yield from merged(streams)
        else:
            for stream in streams:
                yield from stream.requests

    def _stream(self, number: int, taken: set[str]) -> Stream:
        arrivals, name = self.survey.files[number].arrivals, self.files[number].name
        ranks = arrivals.ranks() if self.timed else None
        first = 0.0 if arrivals.first is None else arrivals.first - self.survey.origin_s
        return Stream(first, in_order(self._as_written(number, taken), ranks, name))

    def _as_written(self, number: int, taken: set[str]) -> Iterator[Indexed]:
        """The requests of a file, with unique ids and times from 0."""
        file, log = self.files[number], ReadLog(lenient=self.lenient)
        start = sum(file.requests for file in self.survey.files[:number])
        requests = accepted(self.format.read(file, log), self.survey.consistency, log)
        ids = UniqueIds(self.survey.ids, file.name, taken)
        missing, origin_s = self.survey.files[number].dependencies.missing, self.survey.origin_s
        for index, request in enumerate(requests, start=start):
            if request.after or not self.survey.ids.all_unique:
                after = tuple(ids.latest(other) for other in request.after if other not in missing)
                request = replace(request, id=ids.next(request.id), after=after)
            if origin_s and request.arrival_s is not None:
                request = replace(request, arrival_s=request.arrival_s - origin_s)
            yield Indexed(index, request)


def open_trace(
    paths: Sequence[str | Path],
    *,
    input_format: str | None = None,
    lenient: bool = False,
    trace_block_size: int | None = None,
    stdin: BinaryIO | None = None,
) -> Trace:
    """Reads everything once, so that what is wrong shows before anything is computed.

    Raises `InputError` with file:line and reason for a bad record (lenient: it is skipped and
    counted), for files of different formats, for a block size that is neither known nor given;
    `ConfigError` for an unknown format name.
    """
    files = tuple(find_files(paths, stdin=stdin))
    recognised = _one_format([(file, recognise(file, input_format)) for file in files])
    log, survey = ReadLog(lenient=lenient), Survey(Consistency(trace_block_size))
    for file in files:
        survey.add_file(recognised.format.read(file, log), log)
    kind = survey.consistency.kind
    if kind is None:
        raise _without_requests(files, log.skipped)
    block_size = survey.consistency.fit.size() if kind == "blocks" else None
    names = [file.name for file in files]
    trace = Trace(
        format=recognised.format,
        why=recognised.why,
        files=files,
        kind=kind,
        block_size=block_size,
        several_predecessors=survey.predecessors.several if kind == "blocks" else None,
        warnings=(*log.notes, *warnings_of(survey, names, block_size)),
        skipped=_skipped(survey, log),
        skipped_places=log.places,
        lenient=lenient,
        survey=survey.kept(),
    )
    if any(file.dependencies.forward for file in survey.files):
        refuse_circles(trace)
    return trace


def _one_format(files: list[tuple[TraceFile, Recognised]]) -> Recognised:
    (first, recognised), *others = files
    for file, other in others:
        if other.format is not recognised.format:
            raise InputError(
                f"{first.name} is {recognised.format.title}, {file.name} is {other.format.title}; "
                "the files of one trace have one format.",
                hint="--input-format NAME reads all of them as one format.",
            )
    return recognised


def _skipped(survey: Survey, log: ReadLog) -> Mapping[str, int]:
    """Records, and links to requests that are not there, which only a lenient reading may drop."""
    missing = [file.dependencies.missing for file in survey.files]
    if not log.lenient:
        for places in missing:
            refuse_missing(places)
    dropped = Counter({"a link to a request that is not there": sum(map(len, missing))})
    return log.skipped + dropped


def _without_requests(files: Sequence[TraceFile], skipped: Mapping[str, int]) -> InputError:
    names = ", ".join(file.name for file in files)
    reasons = "; ".join(f"{reason} ({count:,})" for reason, count in skipped.items())
    return InputError(
        f"{names} has no request: "
        + (f"all records were skipped: {reasons}." if skipped else "none of its records is one."),
    )
