"""Without a passing record nothing is moved, and the command that makes one is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gate.gate_record import NAMESPACE, config, record, subject

from kvtool.errors import ConfigError
from kvtool.gate.check import check_gate, gate_command
from kvtool.gate.records import write_record
from kvtool.gate.subject import subject_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kv"


def refusal(folder: Path, **options: Any) -> ConfigError:
    wanted = config(**options)
    with pytest.raises(ConfigError) as raised:
        check_gate(folder, subject_of(NAMESPACE, wanted), wanted)
    return raised.value


def test_no_record(folder: Path) -> None:
    error = refusal(folder)
    assert f"{folder} has no record of the gate for float32 with --repair auto" in error.message
    assert error.hint == "kvtool inspect-cache --gate demo, or add --ungated."


def test_a_passing_record(folder: Path) -> None:
    write_record(folder, record())
    check_gate(folder, subject(), config())


def test_a_failing_record_says_why(folder: Path) -> None:
    write_record(folder, record(kl=0.03, top1=0.5))
    error = refusal(folder)
    assert "mean KL 0.0300 is above 0.02; top-1 agreement 0.5000 is below 0.92" in error.message
    assert error.hint is not None and "--ungated" in error.hint


def test_a_record_for_another_repair(folder: Path) -> None:
    write_record(folder, record())
    error = refusal(folder, repair="first:32")
    assert "--repair first:32" in error.message
    write_record(folder, record(subject=subject(repair="first:32")))
    check_gate(folder, subject_of(NAMESPACE, config(repair="first:032")), config())


def test_block_size_salt_and_tokenizer_do_not_matter() -> None:
    from dataclasses import replace

    other = replace(NAMESPACE, block_size=32, salt="s", tokenizer="t" * 64)
    assert subject_of(other, config()) == subject()


@pytest.mark.parametrize(
    ("options", "command"),
    [
        ({}, "kvtool inspect-cache --gate demo"),
        ({"model": "my models/a"}, "kvtool inspect-cache --gate 'my models/a'"),
        (
            {"cache_dir": "/kv", "dtype": "bfloat16", "device": "cuda", "revision": "main"},
            "kvtool inspect-cache /kv --gate demo --revision main --device cuda --dtype bfloat16",
        ),
        (
            {"repair": "attn:0.15", "donor": "recent", "min_run": 64, "block_size": 32},
            "kvtool inspect-cache --gate demo --repair attn:0.15 --donor recent --min-run 64",
        ),
        ({"no_cache_dir": True, "ungated": True}, "kvtool inspect-cache --gate demo"),
    ],
)
def test_the_command_that_makes_the_record(options: dict[str, Any], command: str) -> None:
    assert gate_command(config(**options)) == command
