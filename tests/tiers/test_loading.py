"""What the forward waits for."""

from __future__ import annotations

import threading

import pytest

from kvtool.tiers.loading import LoadFailed, Loading


def test_a_layer_is_there_when_every_part_delivered_it() -> None:
    ends: list[int] = []
    loading = Loading(2, 2, lambda: ends.append(1))
    loading.arrived(0)
    waiting = threading.Thread(target=loading.wait, args=(0,))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    loading.arrived(0)
    waiting.join(5)
    assert not waiting.is_alive()
    loading.ended()
    assert not ends
    loading.arrived(1)
    loading.arrived(1)
    loading.ended()
    loading.finish()
    assert ends == [1]


def test_a_failure_wakes_whoever_waits_for_any_layer() -> None:
    ends: list[int] = []
    loading = Loading(2, 3, lambda: ends.append(1))
    failures: list[str] = []

    def wait() -> None:
        try:
            loading.wait(2)
        except LoadFailed as failure:
            failures.append(str(failure))

    waiting = threading.Thread(target=wait)
    waiting.start()
    loading.failed("disk: a checksum differs")
    waiting.join(5)
    assert failures == ["disk: a checksum differs"]
    loading.arrived(0)
    with pytest.raises(LoadFailed):
        loading.wait(0)
    assert not ends
    loading.ended()
    loading.ended()
    assert ends == [1]
    with pytest.raises(LoadFailed, match="checksum"):
        loading.finish()


def test_a_failure_after_the_last_layer_is_one_too() -> None:
    loading = Loading(1, 1, lambda: None)
    loading.arrived(0)
    loading.wait(0)
    loading.failed("too late")
    with pytest.raises(LoadFailed, match="too late"):
        loading.finish()
