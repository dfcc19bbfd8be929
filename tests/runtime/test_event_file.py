"""The event file: what it overwrites, when, and what a broken sink does to the run."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest
import tiny

from kvtool.cache.events import AllBlocksCleared
from kvtool.config import EngineConfig
from kvtool.errors import ConfigError, ModelError
from kvtool.runtime import Runtime
from kvtool.runtime.event_file import EventFile

LINE = '{"type": "AllBlocksCleared"}\n'


def write_one(path: Path | str) -> EventFile:
    file = EventFile(str(path))
    file.open()
    file.write(AllBlocksCleared())
    return file


def test_each_event_is_there_at_once_and_an_earlier_event_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for content in (None, "", LINE * 3):
        if content is not None:
            path.write_text(content)
        file = write_one(path)
        assert path.read_text() == LINE
        file.close()


@pytest.mark.parametrize("content", ["precious", "{", '[{"role": "user"}]', '{"prompt": "x"}'])
def test_any_other_file_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / "prompt.txt"
    path.write_text(content)
    with pytest.raises(ConfigError, match="does not hold events"):
        EventFile(str(path))
    assert path.read_text() == content


@pytest.mark.parametrize(
    ("name", "reason"), [("no/file", "No such file or directory"), (".", "Is a directory")]
)
def test_what_cannot_be_written_is_refused_before_the_model_is_loaded(
    tmp_path: Path, name: str, reason: str
) -> None:
    config = EngineConfig(model=str(tmp_path / "missing"), events=str(tmp_path / name))
    with pytest.raises(ConfigError, match=f"Cannot write --events .*: {reason}"):
        Runtime.open(config)


@pytest.mark.parametrize("old", [None, "", LINE])
def test_a_run_that_cannot_start_leaves_the_file_as_it_is(tmp_path: Path, old: str | None) -> None:
    path = tmp_path / "events.jsonl"
    if old is not None:
        path.write_text(old)
    with pytest.raises(ModelError):
        Runtime.open(EngineConfig(model=str(tmp_path / "missing"), events=str(path)))
    model = str(tiny.folder(tmp_path / "model"))
    with pytest.raises(ConfigError, match="--max-model-len"):
        Runtime.open(EngineConfig(model=model, max_model_len=9999, events=str(path)))
    assert (path.read_text() if path.exists() else None) == old


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_ends_the_events_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kvtool"):
        file = write_one("/dev/full")
        file.write(AllBlocksCleared())
        file.close()
    assert [record.getMessage() for record in caplog.records] == [
        "Cannot write --events '/dev/full': No space left on device. "
        "The run goes on without events."
    ]


def test_a_reader_that_leaves_ends_the_events_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    file = write_one(path)
    assert json.loads(os.read(reader, 1000)) == {"type": "AllBlocksCleared"}
    os.close(reader)
    with caplog.at_level(logging.WARNING, "kvtool"):
        for _ in range(2):
            file.write(AllBlocksCleared())
    assert len(caplog.records) == 1 and "Broken pipe" in caplog.records[0].getMessage()
