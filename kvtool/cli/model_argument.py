"""The model that an option like `--gate MODEL` names."""

from __future__ import annotations

from dataclasses import replace

from kvtool.config import EngineConfig
from kvtool.errors import ConfigError
from kvtool.gate.check import DEMO


def model_option(option: str, model: str | None, engine: EngineConfig) -> EngineConfig:
    """The engine options with that model. Raises `ConfigError` where -m names one as well."""
    if engine.model is not None:
        raise ConfigError(f"{option} names the model; drop --model.")
    return replace(engine, model=None if model == DEMO else model)
