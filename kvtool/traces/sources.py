"""From what the user named to the files of a trace: files, folders, standard input."""

from __future__ import annotations

import io
import select
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from kvtool.errors import InputError
from kvtool.traces.trace_file import TraceFile

STDIN = "-"
STDIN_NAME = "standard input"
PIECE = 1 << 16  # bytes
SIGNALS_S = 0.2  # how long a signal may wait
ENDINGS = (".jsonl", ".json", ".ndjson", ".csv", ".traj")  # in folders; also with .gz


def find_files(paths: Sequence[str | Path], *, stdin: BinaryIO | None = None) -> list[TraceFile]:
    """The files in the order given, those of a folder by path. Names are the shortest ends of
    paths that tell them apart. What cannot be read twice (standard input, a pipe) is copied to a
    temporary file first. Raises `InputError`."""
    found: list[Path | TraceFile] = []
    for path in paths:
        if str(path) == STDIN:
            found.append(_spooled(stdin or _standard_input(), STDIN_NAME))
        else:
            found.extend(_files_of(Path(path)))
    _refuse_repeated(file.resolve() for file in found if isinstance(file, Path))
    names = _short_names([file for file in found if isinstance(file, Path)])
    return [TraceFile(names[f], f) if isinstance(f, Path) else f for f in found]


def _files_of(path: Path) -> Iterator[Path | TraceFile]:
    try:
        if path.is_dir():
            yield from _files_in(path)
        elif path.is_file():
            yield path
        elif path.exists():
            with path.open("rb") as pipe:
                yield _spooled(pipe, str(path))
        else:
            raise InputError(f"{path} does not exist.", hint="Name a trace file, a folder or -.")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None


def _files_in(folder: Path) -> list[Path]:
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.name.removesuffix(".gz").endswith(ENDINGS)
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    if not found:
        raise InputError(
            f"{folder} holds no trace: none of its files ends in {', '.join(ENDINGS)} (or .gz).",
            hint="Name the file itself: its format is told by its content.",
        )
    return found


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise InputError(f"{STDIN_NAME} is closed.", hint="Name a trace file, or pipe one in.")
    return sys.stdin.buffer


def _spooled(stream: BinaryIO, name: str) -> TraceFile:
    try:
        copy = tempfile.NamedTemporaryFile(prefix="kvtool-trace-")  # noqa: SIM115 - see `keep`
        copy.writelines(_pieces(stream))
        copy.flush()
    except OSError as error:
        raise InputError(
            f"{name} cannot be copied to a temporary file: {error.strerror or error}.",
            hint="TMPDIR names the folder to use; or name the trace file itself.",
        ) from None
    return TraceFile(name, Path(copy.name), keep=copy)


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    """As they come. A signal just before a read is handled when the read ends, and of a pipe that
    may be never: a read begins when there is something to read."""
    try:
        waits_for = [stream.fileno()]
    except io.UnsupportedOperation:  # in memory
        waits_for = []
    while True:
        while waits_for and not select.select(waits_for, [], [], SIGNALS_S)[0]:
            continue
        piece = cast(io.BufferedIOBase, stream).read1(PIECE)
        if not piece:
            return
        yield piece


def _refuse_repeated(paths: Iterable[Path]) -> None:
    repeated = [str(path) for path, count in Counter(paths).items() if count > 1]
    if repeated:
        raise InputError(f"{repeated[0]} is named twice; each file of a trace counts once.")


def _short_names(paths: list[Path]) -> dict[Path, str]:
    """Each path by its last parts, as many as tell it from the others."""
    names = {path: path.name for path in paths}
    for parts in range(2, max((len(path.parts) for path in paths), default=0) + 1):
        count = Counter(names.values())
        clashing = [path for path, name in names.items() if count[name] > 1]
        if not clashing:
            break
        for path in clashing:
            names[path] = str(Path(*path.parts[-parts:]))
    return names
