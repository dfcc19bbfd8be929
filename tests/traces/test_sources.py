"""Pipes, standard input, and files of which nothing can be read."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType

import pytest

from kvtool.errors import InputError
from kvtool.traces.open_trace import open_trace
from kvtool.traces.sources import find_files


def refusal(path: str | Path) -> str:
    with pytest.raises(InputError) as error:
        open_trace([path])
    return error.value.message


def test_standard_input_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert refusal("-") == "standard input is closed."


class Stopped(Exception):
    pass


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise Stopped


@pytest.mark.report("S76")
def test_a_signal_between_two_reads_of_a_pipe() -> None:
    """It reaches the process while no read is under way, so that none is interrupted by it: here by
    way of another thread."""
    readable, writable = os.pipe()
    done = threading.Event()

    def write_and_signal() -> None:
        os.write(writable, b"{")
        time.sleep(0.1)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        done.wait(20)  # as long as an interrupt may take, and then the test fails
        os.close(writable)

    before = signal.signal(signal.SIGUSR1, _stop)
    thread = threading.Thread(target=write_and_signal)
    try:
        with open(readable, "rb") as stream:
            thread.start()
            with pytest.raises(Stopped):
                find_files(["-"], stdin=stream)
            assert thread.is_alive()
    finally:
        done.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.report("S57")
@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"[]", "it has no record with a field"),
        (b"{}", "it has no record with a field"),
        (b"[5]", "t.json, record 1: the record is not a JSON object"),
        (b'[{"a": ', "t.json, record 1: the record is not JSON"),
        (b'{"a": }', "t.json:1: the record is not JSON"),
        (b'{"a": "\x9d"}', "t.json:1: the record is not UTF-8 text: byte 8 of the line"),
        (b'{"a": ' + b"[" * 999 + b"]" * 999 + b"}", "t.json:1: the record is not usable JSON"),
        (b'{"a": NaN}', "t.json:1: the record is not"),
        (b"hello", "it starts with 'hello', which is no JSON object"),
        (b'{"a": 1, "b": 2}', "its first record has a, b"),
    ],
)
def test_what_is_no_trace_says_what_was_seen(tmp_path: Path, data: bytes, told: str) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(data)
    assert f"t.json is in no trace format that kvtool knows: {told}" in refusal(path)
