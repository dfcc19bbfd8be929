"""The block size of a hash-id trace: stated, given, or the one size that every request fits."""

from __future__ import annotations

from kvtool.errors import InputError
from kvtool.traces.read_log import BadRecord

NO_LIMIT = 2**62
MISFIT = "the number of hash ids does not fit the number of tokens"


class BlockFit:
    """What is known of the block size after some requests, under either way to write a trace:

    whole   every token lies in a block with an id, the last block partly filled: ceil(tokens/size)
    floor   the rest that fills no block has no id: floor(tokens/size)

    A trace keeps to one of them. Every accepted request fits every size and way still possible.
    """

    def __init__(self, size: int | None = None) -> None:
        self._sizes = (1, NO_LIMIT) if size is None else (size, size)
        self._whole: tuple[int, int] | None = self._sizes
        self._floor: tuple[int, int] | None = self._sizes
        self.stated = size is not None

    def state(self, size: int) -> None:
        """A size that the trace itself names. Raises `BadRecord` if it names another one already
        or it was given otherwise."""
        if not self.stated:
            self._whole = _both(self._whole, (size, size))
            self._floor = _both(self._floor, (size, size))
            self._sizes, self.stated = (size, size), True
        elif self._sizes != (size, size):
            known = self._sizes[0]
            raise BadRecord("another block size than before", f"{size}, it was {known}")

    def add(self, num_tokens: int, num_ids: int) -> None:
        """Raises `BadRecord` for a request that no possible size fits, and forgets it."""
        whole = _both(self._whole, _whole_sizes(num_tokens, num_ids))
        floor = _both(self._floor, _floor_sizes(num_tokens, num_ids))
        if whole is None and floor is None:
            raise BadRecord(MISFIT, self._misfit(num_tokens, num_ids))
        self._whole, self._floor = whole, floor

    def size(self) -> int:
        """Raises `InputError` where several sizes fit; they are in the message."""
        low, high = self._possible()
        if low == high:
            return low
        usual = [str(2**n) for n in range(3, 14) if low <= 2**n <= high]
        reach = f"from {low}" if high >= NO_LIMIT else f"from {low} to {high}"
        raise InputError(
            f"The trace does not state its block size, and every size {reach} tokens fits it.",
            hint=f"Say which: --trace-block-size {' or '.join(usual) or low}.",
        )

    def _possible(self) -> tuple[int, int]:
        return self._whole or self._floor or self._sizes

    def _misfit(self, num_tokens: int, num_ids: int) -> str:
        low, high = self._possible()
        if low != high:
            return f"no size of the requests before gives {num_tokens} tokens {num_ids} blocks"
        needed = -(-num_tokens // low)
        return f"{num_tokens} tokens in blocks of {low} need {needed} ids, there are {num_ids}"


def _whole_sizes(num_tokens: int, num_ids: int) -> tuple[int, int] | None:
    """Sizes with ceil(num_tokens / size) == num_ids."""
    if num_ids == 0:
        return None
    high = -(-num_tokens // (num_ids - 1)) - 1 if num_ids > 1 else NO_LIMIT
    return _range(-(-num_tokens // num_ids), high)


def _floor_sizes(num_tokens: int, num_ids: int) -> tuple[int, int] | None:
    """Sizes with num_tokens // size == num_ids."""
    high = num_tokens // num_ids if num_ids else NO_LIMIT
    return _range(num_tokens // (num_ids + 1) + 1, high)


def _both(a: tuple[int, int] | None, b: tuple[int, int] | None) -> tuple[int, int] | None:
    return _range(max(a[0], b[0]), min(a[1], b[1])) if a and b else None


def _range(low: int, high: int) -> tuple[int, int] | None:
    return (low, high) if low <= high else None
