"""Files that `kvtool simulate-agent` writes, and those it leaves alone."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import termios
import time
from pathlib import Path
from typing import IO

import pytest
from cli.trace_files import APPEND, MESSAGES, trace
from command_line import Run
from processes import interrupt, running, wait_until
from processes import kvtool as command
from simulation.example_document import TRACES

from kvtool.report.exports.export import EXPORTS


def test_requests_by_line(simulate: Run, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    found = simulate(APPEND, "--requests", out, "--format", "json").json
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["id"] for row in rows] == [f"turn-{n}" for n in range(1, 7)]
    assert all(sum(row["causes"].values()) == row["missed_tokens"] for row in rows)
    assert sum(row["missed_tokens"] for row in rows) == found["misses"]["total_tokens"]
    assert rows[0]["place"] == "append.jsonl:1"
    assert found["outputs"] == {"requests": {"path": str(out), "requests": 6}}
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]
    assert out.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def test_all_files_of_a_run(kvtool: Run, tmp_path: Path) -> None:
    paths = {name: tmp_path / name for name in ("timeline", "apply", "mooncake", "openai")}
    agents = TRACES / "agents.jsonl"
    files = ("--timeline", paths["timeline"], "--apply", paths["apply"])
    exports = [f"--export={name}:{paths[name]}" for name in ("mooncake", "openai")]
    result = kvtool("simulate-agent", agents, *files, *exports, "--format", "json")
    assert result.code == 0, result.err
    found = result.json
    written = found["outputs"]
    assert set(written) == {"timeline", "apply", "export"}
    assert [row["requests"] for row in written["export"]] == [8, 8]
    events = json.loads(paths["timeline"].read_text())["traceEvents"]
    assert len(events) == written["timeline"]["events"] > 8
    assert found["applied"]["path"] == str(paths["apply"]) and found["applied"]["changed_requests"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(paths)
    again = kvtool("simulate-agent", paths["apply"], "--no-advice", "--format", "json").json
    best = max(one["after"]["hit_rate"] for one in found["advice"] if one["command"])
    assert again["replay"]["hit_rate"] == pytest.approx(best)
    back = kvtool("simulate-agent", paths["openai"], "--no-advice", "--format", "json").json
    assert back["hit_rates"] == found["hit_rates"] and back["misses"] == {
        **found["misses"],
        "top_requests": back["misses"]["top_requests"],
    }


def test_report_page_gets_the_document(
    simulate: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = []
    monkeypatch.setattr("kvtool.report.extra.check_report_extra", lambda: None)
    monkeypatch.setattr(
        "kvtool.report.html.write_report",
        lambda document, path: (pages.append(document), path.write_text("page")),
    )
    out = tmp_path / "out.html"
    found = simulate(APPEND, "--report", out, "--format", "json").json
    assert out.read_text() == "page"
    assert pages == [found]
    assert found["outputs"]["report"] == {"path": str(out)}


@pytest.mark.parametrize("name", EXPORTS)
def test_what_cannot_be_exported_is_told_before_the_work(
    simulate: Run, tmp_path: Path, name: str
) -> None:
    rows = ({"timestamp": i, "input_length": 9, "output_length": 1} for i in range(3))
    out = tmp_path / "out"
    result = simulate(trace(tmp_path / "lengths.jsonl", *rows), "--export", f"{name}:{out}")
    assert (result.code, result.out) == (2, "") and "of lengths" in result.err
    untimed = trace(tmp_path / "untimed.jsonl", {"messages": MESSAGES})
    result = simulate(untimed, "--export", f"{name}:{out}")
    assert result.code == (2 if name == "weka" else 0)
    assert out.exists() is (name != "weka")


def test_a_file_in_the_folder_of_a_trace_is_not_replaced(simulate: Run, tmp_path: Path) -> None:
    row = trace(tmp_path / "a.jsonl", {"messages": MESSAGES})
    link = tmp_path.parent / f"{tmp_path.name}-link.jsonl"
    link.symlink_to(row)
    before = row.read_text()
    for out in (row, link):
        result = simulate(tmp_path, "--requests", out)
        assert result.code == 2 and f"would replace the trace {row}" in result.err
    assert row.read_text() == before


def test_a_file_is_not_stdout_itself() -> None:
    args = ("simulate-agent", APPEND, "--no-advice", "--requests", "/dev/stdout")
    with running(command(*args)) as process:
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, b"") and b"where stdout goes" in err


def test_files_stay_as_they_were_where_a_run_fails(simulate: Run, tmp_path: Path) -> None:
    rows = trace(tmp_path / "rows.jsonl", "precious")
    result = simulate(APPEND, "--requests", rows, "--policies", "ttl:5", "--explain", "nobody")
    assert result.code == 5 and "nobody" in result.err
    assert rows.read_text() == "precious\n"
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


@pytest.mark.report("S76")
def test_ctrl_c(tmp_path: Path) -> None:
    """While it reads a pipe that never ends."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    arguments = command("simulate-agent", pipe, "--requests", tmp_path / "rows")
    with running(arguments) as process, pipe.open("wb") as writer:
        writer.write(APPEND.read_bytes())
        writer.flush()
        waits = Path(f"/proc/{process.pid}/stat")
        wait_until(lambda: _unread(writer) == 0)
        wait_until(lambda: waits.read_text().rpartition(")")[2].split()[0] == "S")
        time.sleep(0.2)  # in the middle of a call that reads, Python hears no signal
        out, _ = interrupt(process)
    assert out == b""
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def _unread(pipe: IO[bytes]) -> int:
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]
