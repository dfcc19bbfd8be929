"""The store's batch calls, none of them while the store is known to be down."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kvtool.tiers.mooncake.address import Address
from kvtool.tiers.mooncake.breaker import Breaker
from kvtool.tiers.mooncake.client import Client, Codes, Unavailable

Buffers = Sequence[memoryview | npt.NDArray[Any]]  # one behind the other: an object

OK = 0
FULL = -200
REASONS = {
    FULL: "the store is full, or nobody lends it memory",
    -600: "an object has another size than expected",
    -704: "an object is gone",
    -800: "the machine that holds an object does not answer",
}
LONGEST_PAUSE_S = 60.0
_log = logging.getLogger(__name__)


def reason_of(code: int) -> str:
    return REASONS.get(code, f"the store answered {code}")


class RemoteStore:
    """Every method is one call and raises `Unavailable`."""

    def __init__(self, address: Address, deadline_s: float, pause_s: float) -> None:
        self._address = address
        self._client = Client(address, deadline_s)
        self._breaker = Breaker(pause_s, LONGEST_PAUSE_S)

    def connect(self) -> None:
        self._call(lambda _client: [])

    def exist(self, names: Sequence[str]) -> list[bool]:
        """A look-up that failed is answered by a negative code, hence the comparison."""
        codes = self._call(lambda client: client.batch_is_exist(list(names)))
        return [code == 1 for code in codes]

    def put(self, names: Sequence[str], objects: Sequence[Buffers]) -> Codes:
        """OK or negative. An object that exists keeps its value and is OK."""
        return self._call(
            lambda client: client.batch_put_from_multi_buffers(list(names), *_places(objects))
        )

    def replace(self, names: Sequence[str], objects: Sequence[npt.NDArray[np.uint8]]) -> Codes:
        """OK or negative. An object that exists gets the new value."""
        places, sizes = _places([[data] for data in objects])
        return self._call(
            lambda client: client.batch_upsert_from(
                list(names), [place for (place,) in places], [size for (size,) in sizes]
            )
        )

    def get(self, names: Sequence[str], objects: Sequence[Buffers]) -> Codes:
        """Fills the buffers of each object: its size or negative."""
        return self._call(
            lambda client: client.batch_get_into_multi_buffers(list(names), *_places(objects))
        )

    def remove(self, names: Sequence[str]) -> Codes:
        """OK or negative. Without force the store keeps what was read a short while ago."""
        return self._call(lambda client: client.batch_remove(list(names), force=True))

    def _call(self, work: Callable[[Any], Codes]) -> Codes:
        if not self._breaker.admit():
            raise Unavailable("it did not answer a short while ago")
        try:
            codes = self._client.call(work)
        except BaseException as error:
            if self._breaker.fail():
                self._warn(error)
            raise
        if self._breaker.succeed():
            _log.info("The remote store %s answers again.", self._address)
        return codes

    def _warn(self, error: BaseException) -> None:
        _log.warning(
            "The remote store %s is not used for now: %s. What is not cached elsewhere is "
            "computed; the next try is in %g s. Check that mooncake_master runs there.",
            self._address,
            error,
            self._breaker.pause_s,
        )


def _places(objects: Sequence[Buffers]) -> tuple[list[list[int]], list[list[int]]]:
    """Address and bytes of every buffer."""
    arrays = [[np.frombuffer(buffer, dtype=np.uint8) for buffer in parts] for parts in objects]
    places = [[int(array.ctypes.data) for array in parts] for parts in arrays]
    return places, [[array.nbytes for array in parts] for parts in arrays]
