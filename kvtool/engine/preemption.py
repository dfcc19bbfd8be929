"""Who gives way when blocks run out.

The victim drops its blocks, which stay cached while they are not needed, and waits for admission
again. Where there are tiers below the pool, they are written there first (swap-out), and read
again at its admission if that is faster than computing them.

Only the latest admitted request is ever chosen, so the oldest running request keeps what it holds
until it is done: every preemption serves an older request, and each of those finishes.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.engine.request import Request


def choose_victim(running: Sequence[Request]) -> Request:
    """The latest admitted of `running` (in order of admission, at least two)."""
    assert len(running) > 1, "the oldest running request is never preempted"
    return running[-1]
