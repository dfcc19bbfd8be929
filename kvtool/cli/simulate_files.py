"""The files that `simulate-agent` writes: checked before the work, and there as a whole or not."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kvtool.cli.event_target import check_not_cache, is_stdout
from kvtool.cli.output import OutputFailed, strict_json
from kvtool.cli.simulate_options import SimulateRequest
from kvtool.config import EngineConfig
from kvtool.errors import ConfigError


class OutFile(NamedTuple):
    option: str
    path: str


def out_files(request: SimulateRequest) -> list[OutFile]:
    named = [
        OutFile(f"--{name}", path)
        for name in ("apply", "requests", "report", "timeline")
        if (path := getattr(request, name)) is not None
    ]
    exports = (OutFile(f"--export {one.format}", one.path) for one in request.export or ())
    return [*named, *exports]


def check_files(files: Iterable[OutFile], inputs: Sequence[str], engine: EngineConfig) -> None:
    """Raises `ConfigError` for a file that cannot be written, or that would replace a trace or
    another of them."""
    taken = {os.path.realpath(engine.events): "--events"} if engine.events is not None else {}
    files = list(files)
    check_not_traces(files, inputs)
    for option, path in files:
        check_not_cache(engine, option, path)
        if is_stdout(path):
            raise ConfigError(
                f"{option} {path!r} is where stdout goes, and would be mixed with the report.",
                hint=f"Give {option} a file of its own.",
            )
        real = os.path.realpath(path)
        if real in taken:
            raise ConfigError(f"{option} {path!r} would replace {taken[real]}.")
        taken[real] = f"the file of {option}"
        _check_writable(option, path)


def check_not_traces(files: Iterable[OutFile], inputs: Iterable[str | Path]) -> None:
    """inputs: also what a folder that was named holds. Raises `ConfigError`."""
    traces = {os.path.realpath(name): name for name in inputs}
    for option, path in files:
        if (trace := traces.get(os.path.realpath(path))) is not None:
            raise ConfigError(f"{option} {path!r} would replace the trace {trace}.")


def _check_writable(option: str, path: str) -> None:
    folder = os.path.dirname(path) or "."
    code = 0
    if os.path.isdir(path):
        code = errno.EISDIR
    elif not os.path.isdir(folder):
        code = errno.ENOENT
    elif not os.access(folder, os.W_OK):
        code = errno.EACCES
    if code:
        raise ConfigError(f"Cannot write {option} {path!r}: {os.strerror(code)}.")


@contextmanager
def whole_file(option: str, path: str) -> Iterator[Path]:
    """A temporary name beside it, which takes its place when all went well. A device or pipe is
    written to directly. Raises `OutputFailed` for what the disk refuses."""
    target = Path(path)
    try:
        if target.exists() and not target.is_file():
            yield target
            return
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
        try:
            yield Path(name)
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, os.path.realpath(path))
        finally:
            with contextlib.suppress(OSError):
                os.unlink(name)
    except OSError as error:
        raise OutputFailed(f"Cannot write {option} {path!r}: {error.strerror or error}.") from None


@contextmanager
def row_writer(option: str, path: str | None) -> Iterator[Any]:
    """Yields what takes a JSON-able object for each line; None without a path."""
    if path is None:
        yield None
        return
    with whole_file(option, path) as name, name.open("w", encoding="utf-8") as file:
        yield lambda row: file.write(strict_json(row) + "\n")


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
