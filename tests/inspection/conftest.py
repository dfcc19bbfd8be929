"""A cache folder of its own for each test, and a clock that tests set."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvtool.tiers.disk.catalog import Catalog

NOW = 1_790_000_000.0  # 2026-09-21T14:13:20Z


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What `time.time()` says is its only item."""
    now = [NOW]
    monkeypatch.setattr(time, "time", lambda: now[0])
    return now


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path / "kv", create=True)
    yield opened
    opened.close()
