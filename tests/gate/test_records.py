"""Records in a cache folder: private, whole, and none where something is amiss."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gate.gate_record import record, subject

from kvtool.errors import CacheError
from kvtool.gate.record import GateRecord
from kvtool.gate.records import read_record, read_records, write_record
from kvtool.gate.score import Limits
from kvtool.tiers.disk.catalog import Catalog


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kv"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_record_is_read_back_and_only_its_owner_reads_it(folder: Path) -> None:
    old = os.umask(0)
    try:
        path = write_record(folder, record())
    finally:
        os.umask(old)
    assert path == folder / "gates" / f"{subject().key}.json"
    assert (mode(folder), mode(path.parent), mode(path)) == (0o700, 0o700, 0o600)
    assert read_record(folder, subject()) == record()
    assert os.listdir(path.parent) == [path.name]


def test_a_newer_one_takes_the_place_of_an_older_one(folder: Path) -> None:
    write_record(folder, record())
    newer = record(kl=0.5, created="2026-12-01T00:00:00Z")
    write_record(folder, newer)
    assert read_records(folder) == [newer]
    other = record(created="2026-11-01T00:00:00Z", subject=subject(donor="recent"))
    write_record(folder, other)
    assert read_records(folder) == [newer, other]


@pytest.mark.parametrize(
    "fields",
    [
        {"weights": "0" * 64},
        {"architecture": "LlamaForCausalLM other"},
        {"rope_regime": "long"},
        {"compute_dtype": "bfloat16"},
        {"kv_dtype": "bfloat16"},
        {"adapter": "a"},
        {"scheme": "nope"},
        {"repair": "none"},
        {"donor": "recent"},
        {"min_run": 64},
        {"probe_set": 0},
    ],
)
def test_a_record_is_of_its_subject_alone(folder: Path, fields: dict[str, Any]) -> None:
    write_record(folder, record())
    assert read_record(folder, subject(**fields)) is None


def tampered(**changes: Any) -> str:
    return json.dumps({**record().as_dict(), **changes})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        "[" * 100_000,
        tampered(subject=None),
        tampered(passed=False),
        tampered(limits={"kl": 0.0, "top1": 0.92}),  # with which it would not have passed
        tampered(situations=[]) + " " * (1 << 20),
    ],
)
def test_what_is_no_record_counts_as_none(folder: Path, text: str) -> None:
    path = write_record(folder, record())
    path.write_text(text)
    assert read_record(folder, subject()) is None
    assert read_records(folder) == []


def test_a_record_under_another_name_counts_as_none(folder: Path) -> None:
    other = record(subject=subject(repair="none"))
    write_record(folder, other).rename(folder / "gates" / f"{subject().key}.json")
    assert read_record(folder, subject()) is None


def test_the_verdict_follows_from_the_numbers() -> None:
    assert record().passed and record().as_dict()["failures"] == []
    failed = record(kl=0.03)
    assert not failed.passed
    assert failed.as_dict()["failures"] == ["mean KL 0.0300 is above 0.02"]
    assert replace(failed, limits=Limits(kl=0.05)).passed
    assert GateRecord.from_dict(json.loads(json.dumps(failed.as_dict()))) == failed


def test_the_folder_is_a_cache_for_everybody_else(folder: Path) -> None:
    write_record(folder, record())
    catalog = Catalog.open(folder)
    assert catalog.entries() == [] and catalog.check() == []
    assert catalog.path == folder
    catalog.close()


def test_a_folder_that_is_no_cache_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(CacheError, match="not a kvtool cache"):
        write_record(tmp_path, record())
    assert os.listdir(tmp_path) == ["thesis.txt"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CacheError, match=r"cannot be kept in .*file/kv"):
        write_record(tmp_path / "file" / "kv", record())


def test_a_folder_that_is_not_there_has_no_records(folder: Path) -> None:
    assert read_record(folder, subject()) is None
    assert read_records(folder) == []
    assert not folder.exists()
