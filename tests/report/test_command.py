"""`simulate-agent --report`, `--timeline` and `--export`, from the command line."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from report.replayed import TRACES

from kvtool.cli import app
from kvtool.report.timeline_check import check_timeline


def run(*args: str | Path) -> int:
    return app.run(["simulate-agent", *map(str, args), "--no-advice", "--format", "json"])


def test_all_of_them_in_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, timeline = tmp_path / "page.html", tmp_path / "timeline.json"
    exports = {name: tmp_path / f"{name}.jsonl" for name in ("mooncake", "weka", "openai")}
    options = [f"--export={name}:{path}" for name, path in exports.items()]
    code = run(TRACES / "append.jsonl", "--report", page, "--timeline", timeline, *options)
    assert code == 0
    found = json.loads(capsys.readouterr().out)
    assert found["outputs"]["report"] == {"path": str(page)}
    assert page.read_text().rstrip().endswith("</html>")
    events = json.loads(timeline.read_text())["traceEvents"]
    assert check_timeline(events) == found["outputs"]["timeline"]["events"]
    rates = found["hit_rates"]
    for format, path in exports.items():
        assert run(path) == 0
        again = json.loads(capsys.readouterr().out)
        assert again["input"]["format"] == format
        assert again["hit_rates"] == rates
    assert {path.name for path in tmp_path.iterdir()} == {
        *("page.html", "timeline.json", "mooncake.jsonl", "weka.jsonl", "openai.jsonl")
    }


def test_without_the_extra_nothing_is_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        "kvtool.report.extra.find_spec", lambda name: None if name == "vl_convert" else real(name)
    )
    page = tmp_path / "page.html"
    page.write_text("what was there")
    assert run(TRACES / "append.jsonl", "--report", page) == 2
    message = capsys.readouterr().err
    assert "vl-convert-python" in message and "pip install 'kvtool[report]'" in message
    assert page.read_text() == "what was there" and len(list(tmp_path.iterdir())) == 1


def test_a_page_that_cannot_be_made_leaves_the_old_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    page = tmp_path / "page.html"
    page.write_text("what was there")
    monkeypatch.setattr("kvtool.report.page.page", no_space)
    assert run(TRACES / "append.jsonl", "--report", page) != 0
    assert "No space left on device" in capsys.readouterr().err
    assert page.read_text() == "what was there" and len(list(tmp_path.iterdir())) == 1
