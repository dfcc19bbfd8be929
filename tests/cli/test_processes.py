"""What only a process of its own shows: signals, pipes, streams; and what a terminal does."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import model_files
import pytest
from command_line import Run
from processes import ROOT, environment, interrupt, kvtool, running, wait_until


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a context long enough that prefill and decode take as long as a test needs."""
    model = model_files.tiny_model(max_position_embeddings=60_000)
    return model_files.save_folder(tmp_path_factory.mktemp("models") / "endless", model)


def command(model: Path, *args: str) -> list[str]:
    options = ("--model", str(model), "--dtype", "fp32", "--ignore-eos", "--kv-blocks", "4000")
    return kvtool("generate", *options, *args)


@pytest.mark.report("S76")
def test_ctrl_c_while_loading(endless: Path) -> None:
    with running(command(endless, "hi")) as process:
        maps = Path(f"/proc/{process.pid}/maps")
        wait_until(lambda: "torch" in maps.read_text())
        out, _ = interrupt(process)
    assert out == b""


@pytest.mark.report("S76")
def test_ctrl_c_before_the_command_line_is_there() -> None:
    """The handler is there before anything slow is imported."""
    code = (
        "import os, signal, sys; from kvtool import __main__ as process; "
        "sys.modules.pop('kvtool.cli.app', None); "
        "sys.meta_path.insert(0, type('Finder', (), {'find_spec': lambda *_: "
        "os.kill(os.getpid(), signal.SIGINT)})()); process.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), cwd=ROOT, capture_output=True
    )
    assert (done.returncode, done.stderr) == (130, b"error: interrupted\n")


@pytest.mark.report("S76")
def test_the_end_does_not_wait_for_the_interpreter() -> None:
    """Nothing runs behind the exit code: with torch loaded that takes seconds."""
    code = (
        "import atexit, sys; from kvtool.__main__ import main; "
        "atexit.register(print, 'too late'); sys.argv = ['kvtool', '--version']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), cwd=ROOT, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"kvtool ") and b"too late" not in done.stdout


@pytest.mark.report("S76")
def test_ctrl_c_that_python_would_drop_ends_the_process() -> None:
    """Where an exception cannot be raised: a finaliser, a callback of the import system."""
    code = (
        "import os, signal, time; from kvtool.cli import interrupt; interrupt.install(); "
        "thing = type('Thing', (), {'__del__': lambda _: os.kill(os.getpid(), signal.SIGINT)})(); "
        "del thing; time.sleep(20); print('still there')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), cwd=ROOT, capture_output=True, timeout=15
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"error: interrupted\n")


@pytest.mark.report("S76")
def test_ctrl_c_in_prefill(endless: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    options = ("hello " * 4000, "--max-num-batched-tokens", "16", "--events", str(events))
    with running(command(endless, *options)) as process:
        wait_until(lambda: events.exists() and events.stat().st_size)
        out, err = interrupt(process)
    assert (out, err) == (b"\n", b"error: interrupted\n")
    lines = events.read_text().splitlines()
    assert all(json.loads(line)["type"] == "BlockStored" for line in lines)


@pytest.mark.report("S74")
@pytest.mark.report("S76")
@pytest.mark.report("S82")
def test_ctrl_c_in_decode_keeps_the_text(endless: Path) -> None:
    """In an ASCII locale and with colour wanted by CI variables: the text alone, in UTF-8."""
    arguments = command(endless, "hi", "--max-tokens", "50000", "--stop", "never said")
    with running(arguments, LC_ALL="C", PYTHONUTF8="0", GITHUB_ACTIONS="1") as process:
        assert process.stdout is not None
        first = os.read(process.stdout.fileno(), 4096)
        out, err = interrupt(process)
    assert (first + out).decode("utf-8").endswith("\n")
    assert err == b"error: interrupted\n"


@pytest.mark.report("S82")
def test_a_closed_pipe_ends_quietly(endless: Path) -> None:
    with running(command(endless, "hi", "--max-tokens", "50000")) as process:
        assert process.stdout is not None and process.stderr is not None
        os.read(process.stdout.fileno(), 4096)
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == b""


@pytest.mark.report("S74")
def test_a_terminal_without_colour_gets_no_codes(
    generate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process; what it says is less than a terminal holds unread."""
    leader, follower = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    with open(follower, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        assert generate("hi", "--max-tokens", "2", "--stats").code == 0
    said = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while piece := os.read(leader, 4096):
            said += piece
    os.close(leader)
    assert b"hit rate" in said and b"\x1b" not in said
