"""Opening and closing a runtime: what is said on stderr, and what is waited for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import typer

from kvtool.cli.loading import PATIENCE_S, open_runtime
from kvtool.config import EngineConfig
from kvtool.runtime import Runtime

log = logging.getLogger("kvtool.models.checkpoint")


class Recorder:
    """A runtime that notes what is asked of it; `slow`: its KV is not kept at once."""

    def __init__(self, *, slow: bool) -> None:
        self.calls: list[object] = []
        self._slow = slow

    def flush(self, timeout_s: float | None = None) -> bool:
        self.calls.append(timeout_s)
        return timeout_s is None or not self._slow

    def close(self, *, flush: bool) -> None:
        self.calls.append("flush" if flush else "close")
        log.warning("Not closed.")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Recorder]:
    def make(*, slow: bool = False) -> Recorder:
        recorder = Recorder(slow=slow)

        def open_it(config: EngineConfig, *, progress: Any) -> Any:
            log.warning("%d tensors are unknown.", 2)
            log.info("All others fit.")
            return recorder

        monkeypatch.setattr(Runtime, "open", open_it)
        return recorder

    return make


def test_warnings_of_the_layers_below_are_shown(
    opened: Callable[..., Recorder], capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = opened()
    with open_runtime(EngineConfig()):
        log.warning("The text begins with BOS.")
    log.warning("Nobody listens any more.")
    assert capsys.readouterr().err == (
        "warning: 2 tensors are unknown.\nwarning: The text begins with BOS.\n"
        "warning: Not closed.\n"
    )
    assert recorder.calls == [PATIENCE_S, "close"]


def test_a_long_wait_is_said(
    opened: Callable[..., Recorder], capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = opened(slow=True)
    with open_runtime(EngineConfig()):
        pass
    assert recorder.calls == [PATIENCE_S, None, "close"]
    assert "Storing KV\n" in capsys.readouterr().err


@pytest.mark.report("S76")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError(), typer.Exit(5)])
def test_only_a_report_is_waited_for(opened: Callable[..., Recorder], error: BaseException) -> None:
    recorder = opened()
    with pytest.raises(type(error)), open_runtime(EngineConfig()):
        raise error
    waited = [PATIENCE_S] if isinstance(error, typer.Exit) else []
    assert recorder.calls == [*waited, "close"]
