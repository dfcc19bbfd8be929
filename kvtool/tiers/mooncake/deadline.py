"""Calls that may block for as long as they like, while the caller does not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

T = TypeVar("T")


class Late(Exception):
    """A call that was given up. It goes on; `unfinished` is done when it has ended."""

    def __init__(self, unfinished: Future[Any]) -> None:
        super().__init__("no answer in time")
        self.unfinished = unfinished


def within(deadline_s: float, work: Callable[[], T]) -> T:
    """The result of `work`; raises `Late` where it takes longer.

    A thread a call (0.1 ms), a daemon: the next call need not queue behind one that is stuck, and
    neither need the end of the process.
    """
    future: Future[T] = Future()
    threading.Thread(target=_carry_out, args=(work, future), daemon=True).start()
    if not wait((future,), deadline_s).done:
        raise Late(future)
    return future.result()


def _carry_out(work: Callable[[], T], future: Future[T]) -> None:
    try:
        result = work()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
