"""Calls of Mooncake's client that end in time, one way or another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from kvtool.tiers.mooncake.address import Address
from kvtool.tiers.mooncake.connection import Unreachable, connect
from kvtool.tiers.mooncake.deadline import Late, within

MASTER_FAILED = -900  # and below: a call to the master went wrong

Codes = list[int]  # one an object, as Mooncake returns them


class Unavailable(Exception):
    """No answer. The text is the reason; `unfinished`: see `Late`."""

    def __init__(self, reason: str, unfinished: Future[Any] | None = None) -> None:
        super().__init__(reason)
        self.unfinished = unfinished


class Client:
    """Connects with the first call, and again after every one that could not."""

    def __init__(self, address: Address, deadline_s: float) -> None:
        self._address = address
        self._deadline_s = deadline_s
        self._connecting = threading.Lock()

    def call(self, work: Callable[[Any], Codes]) -> Codes:
        """What `work` returns for Mooncake's client object; raises `Unavailable`.

        Buffers that `work` closes over live as long as it runs, however late that is.
        """
        try:
            codes = within(self._deadline_s, lambda: work(self._connected()))
        except Late as late:
            reason = f"no answer within {self._deadline_s:g} s"
            raise Unavailable(reason, late.unfinished) from None
        except Unreachable as error:
            raise Unavailable(str(error)) from None
        except RuntimeError as error:  # of the C++ library
            raise Unavailable(str(error)) from error
        if any(code <= MASTER_FAILED for code in codes):
            raise Unavailable("its master does not answer")
        return codes

    def _connected(self) -> Any:
        with self._connecting:
            return connect(self._address, self._deadline_s)
