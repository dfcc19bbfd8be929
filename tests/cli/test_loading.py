"""Opening a runtime: what is said on stderr meanwhile."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from kvtool.cli.loading import open_runtime
from kvtool.config import EngineConfig
from kvtool.runtime import Runtime


def test_warnings_of_the_layers_below_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = logging.getLogger("kvtool.models.checkpoint")

    def opened(config: EngineConfig, *, progress: Any) -> Any:
        log.warning("%d tensors are unknown.", 2)
        log.info("All others fit.")
        return SimpleNamespace(close=lambda: log.warning("Not closed."))

    monkeypatch.setattr(Runtime, "open", opened)
    with open_runtime(EngineConfig()):
        log.warning("The text begins with BOS.")
    log.warning("Nobody listens any more.")
    assert capsys.readouterr().err == (
        "warning: 2 tensors are unknown.\nwarning: The text begins with BOS.\n"
        "warning: Not closed.\n"
    )
