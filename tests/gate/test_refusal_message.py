"""A refusal names every option that a record of the gate must agree in."""

from __future__ import annotations

from pathlib import Path

import pytest
from gate.gate_record import NAMESPACE, config, record, subject

from kvtool.errors import ConfigError
from kvtool.gate.check import check_gate
from kvtool.gate.records import write_record
from kvtool.gate.subject import subject_of


def test_a_record_for_longer_runs(tmp_path: Path) -> None:
    write_record(tmp_path / "kv", record())
    check_gate(tmp_path / "kv", subject(), config())
    shorter = config(min_run=64)
    with pytest.raises(ConfigError, match="--donor similar --min-run 64"):
        check_gate(tmp_path / "kv", subject_of(NAMESPACE, shorter), shorter)
