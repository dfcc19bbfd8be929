"""Rewritings that go together: what one moves away may be what hides the gain of another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

from kvtool.advice.advice import Advice, Figures
from kvtool.advice.rewrite import Rewrite, composed
from kvtool.advice.situation import Proposal, Situation
from kvtool.errors import CacheError

ID = "combination"

Parts = Mapping[str, Rewrite]


def combination(
    rewritings: Mapping[str, Sequence[Proposal]],
    situation: Situation,
    finished: Callable[[Advice, Situation], Advice],
) -> Iterator[Advice]:
    """All kinds at once, in the variants that save most together, without those that add nothing;
    none where fewer than two are left."""
    kinds = {name: [p.rewrite for p in found if p.rewrite] for name, found in rewritings.items()}
    kinds = {name: found for name, found in kinds.items() if found}
    if len(kinds) < 2:
        return
    tried = [dict(zip(kinds, choice)) for choice in product(*kinds.values())]
    best, after = max(
        ((parts, _figures(parts, situation)) for parts in tried),
        key=lambda t: -t[1].work_tokens,
    )
    for name in list(best):
        fewer = {other: rewrite for other, rewrite in best.items() if other != name}
        without = _figures(fewer, situation) if fewer else situation.before
        if without.work_tokens <= after.work_tokens:
            best, after = fewer, without
    if len(best) >= 2:
        yield finished(_advice(best, after, situation), situation)


def _figures(parts: Parts, situation: Situation) -> Figures:
    """Those of before, where a request does not fit then."""
    try:
        return Figures.of(situation.rewritten(composed(list(parts.values()))).replay())
    except CacheError:
        return situation.before


def _advice(parts: Parts, after: Figures, situation: Situation) -> Advice:
    names = ", ".join(parts)
    return Advice(
        id=ID,
        parts=tuple(parts),
        title=f"Rewrite prompts in {len(parts)} ways together ({names})",
        why="Replayed together, since what one of them saves may hang on another, or overlap it.",
        before=situation.before,
        after=after,
        command="--apply OUT.jsonl",
        rewrite=composed(list(parts.values())),
    )
