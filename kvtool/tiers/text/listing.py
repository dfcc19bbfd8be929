"""What tiers say of the text they have."""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Set
from typing import NamedTuple, Protocol, runtime_checkable

from kvtool.cache.backing import Run
from kvtool.cache.block_pool import Tokens


class Listed(NamedTuple):
    """handle: names the run in its tier as long as it is there. last_use: by the tier's own clock."""

    handle: Hashable
    run: Run
    last_use: int


class Changes(NamedTuple):
    """state: to be given the next time; an equal one means that nothing has changed."""

    state: object
    gone: Set[Hashable]
    new: Sequence[Listed]


class Head(NamedTuple):
    """What stands in front of a run whose parent is not known here: the sequence's token at
    position 0, and the last tokens before the run."""

    first_token: int
    context: Tokens


class FoundText(NamedTuple):
    """run: full blocks with exact KV."""

    run: Run
    head: Head


@runtime_checkable
class ListsText(Protocol):
    """A tier (`tiers.tier.Tier`) that knows the text of all it has."""

    name: str

    def text_changes(self, namespace: bytes, known: Set[Hashable], state: object) -> Changes:
        """How its runs of this namespace with exact KV differ from those with `known` handles.

        state: of the last answer, None at first. Where the tier cannot tell, nothing has changed.
        """
        ...


@runtime_checkable
class FindsText(Protocol):
    """A tier that can look up text, and cannot list it."""

    name: str

    def find_text(self, namespace: bytes, pieces: Sequence[Tokens]) -> list[FoundText]:
        """Runs that have some of these pieces of text, by home; empty where it does not answer."""
        ...
