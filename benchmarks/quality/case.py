"""One case: a prompt that holds text computed before, and the contexts it was computed in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.quality.frame import Tokens


class Piece(NamedTuple):
    """name: None for what is not reused."""

    tokens: Tokens
    name: str | None = None


class Context(NamedTuple):
    """What one request feeds, as pieces in order."""

    pieces: tuple[Piece, ...]

    @property
    def tokens(self) -> list[int]:
        return [token for piece in self.pieces for token in piece.tokens]

    def places(self) -> dict[str, tuple[int, int]]:
        """name -> [start, stop) of its tokens, in order."""
        found, end = {}, 0
        for piece in self.pieces:
            start, end = end, end + len(piece.tokens)
            if piece.name is not None:
                found[piece.name] = (start, end)
        return found

    def until_last_named(self) -> Context:
        """Without what stands behind the last reused piece."""
        last = max(i for i, piece in enumerate(self.pieces) if piece.name is not None)
        return Context(self.pieces[: last + 1])


class Earlier(NamedTuple):
    """kind: own (the situation's own donor), similar or unlike the target's context."""

    kind: str
    context: Context


class Case(NamedTuple):
    """target, without: the prompt up to the question, with and without the reused text.

    question, answer: the rows that are scored; the answer is fed as it truly goes on and is no
    part of the prompt. earlier: all hold the target's named pieces; oldest first.
    """

    prompt: str
    situation: str
    target: Context
    without: Context
    question: Tokens
    answer: Tokens
    earlier: tuple[Earlier, ...]

    @property
    def tokens(self) -> list[int]:
        return [*self.target.tokens, *self.question, *self.answer]

    @property
    def tokens_without(self) -> list[int]:
        return [*self.without.tokens, *self.question, *self.answer]

    @property
    def num_prompt(self) -> int:
        return len(self.tokens) - len(self.answer)

    @property
    def num_scored(self) -> int:
        return len(self.question) + len(self.answer)

    @property
    def num_reused(self) -> int:
        return sum(stop - start for start, stop in self.target.places().values())

    @property
    def own(self) -> Context:
        return next(earlier.context for earlier in self.earlier if earlier.kind == "own")


def context(*pieces: Tokens | Piece) -> Context:
    """Plain tokens become pieces without a name."""
    return Context(tuple(p if isinstance(p, Piece) else Piece(p) for p in pieces))


def check(case: Case) -> None:
    """Every reused piece stands with the same tokens in every earlier context."""
    names = _named(case.target.pieces)
    for earlier in case.earlier:
        held = _named(earlier.context.pieces)
        assert held.keys() == names.keys(), (case.situation, earlier.kind)
        assert held == names, (case.situation, earlier.kind)


def _named(pieces: Sequence[Piece]) -> dict[str, Tokens]:
    return {piece.name: piece.tokens for piece in pieces if piece.name is not None}
