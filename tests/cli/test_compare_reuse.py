"""examples/compare_reuse.py on a tiny model: what it counts, and that exact reuse changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import model_files
import pytest

from examples import compare_reuse
from kvtool.traces.open_trace import Trace, open_trace

TEXT = "the lazy dog jumps over the quick brown fox and back " * 20


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """The same text behind two heads, then the first prompt with another question."""
    lines = []
    for head, question in (("a", "one"), ("bcd", "two"), ("a", "three")):
        messages = [{"role": "user", "content": f"{head} {TEXT}"}]
        messages += [{"role": "assistant", "content": "yes"}, {"role": "user", "content": question}]
        reply = {"message": {"role": "assistant", "content": "dog"}}
        lines.append(json.dumps({"messages": messages, "response": {"choices": [reply]}}))
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    return open_trace([path])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    long = model_files.tiny_model(max_position_embeddings=4096)
    return str(model_files.save_folder(tmp_path_factory.mktemp("models") / "long", long))


def test_rows(trace: Trace, model: str) -> None:
    none, prefix, shift = (
        compare_reuse.measure(trace, reuse, model) for reuse in compare_reuse.WAYS
    )
    assert none.cached == none.shifted == none.recomputed == 0 and none.kl_mean is None
    assert prefix.cached > 0 == prefix.shifted and prefix.kl_mean is not None
    assert abs(prefix.kl_mean) < 1e-6
    assert shift.shifted > 0 < shift.recomputed and shift.computed < prefix.computed
    assert shift.cached == prefix.cached
    for row in (none, prefix, shift):
        assert row.cached + row.shifted + row.recomputed + row.computed == none.computed
        assert row.ttft_ms > 0


def test_what_is_printed(
    trace: Trace,
    model: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(compare_reuse, "open_trace", lambda paths: trace)
    monkeypatch.setattr(compare_reuse.sys, "argv", ["compare_reuse.py"])
    measure = compare_reuse.measure
    monkeypatch.setattr(compare_reuse, "measure", lambda trace, reuse: measure(trace, reuse, model))
    compare_reuse.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("upload-first.jsonl: 3 requests") and "ungated" in lines[0]
    assert [line.split()[0] for line in lines[2:6]] == ["reuse", "none", "prefix", "shift"]
    assert len({len(line) for line in lines[2:6]}) == 1
