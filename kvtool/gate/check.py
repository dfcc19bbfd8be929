"""Whether shifted reuse may be used: a passing record, or nothing."""

from __future__ import annotations

import shlex
from dataclasses import fields
from pathlib import Path

from kvtool.config import EngineConfig
from kvtool.errors import ConfigError
from kvtool.gate.records import read_record
from kvtool.gate.subject import Subject

DEMO = "demo"  # what --gate and --rope-check call the model that runs when none is named

_REPEATED = ("revision", "device", "dtype", "reuse_scheme", "repair", "donor", "min_run")


def check_gate(folder: Path, subject: Subject, config: EngineConfig) -> None:
    """Raises `ConfigError` without a passing record in `folder`."""
    record = read_record(folder, subject)
    if record is not None and record.passed:
        return
    what = (
        f"{subject.compute_dtype} with --repair {subject.repair} --donor {subject.donor} "
        f"--min-run {subject.min_run} --reuse-scheme {subject.scheme}"
    )
    if record is None:
        raise ConfigError(
            f"How well moved text does on this model was not measured: {folder} has no record of "
            f"the gate for {what}.",
            hint=f"{gate_command(config)}, or add --ungated.",
        )
    raise ConfigError(
        f"This model does not pass the gate for {what}: {'; '.join(record.failures)}.",
        hint=f"{gate_command(config)} measures again; --reuse prefix stays exact; another "
        "--repair may pass; --ungated does without.",
    )


def gate_command(config: EngineConfig) -> str:
    """The command line that makes the record a run with these options looks for."""
    words = ["kvtool", "inspect-cache"]
    if config.cache_dir is not None:
        words.append(config.cache_dir)
    words += ["--gate", config.model or DEMO]
    default = {field.name: field.default for field in fields(config)}
    for name in _REPEATED:
        value = getattr(config, name)
        if value != default[name]:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join(words)
