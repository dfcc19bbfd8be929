"""Looks for text of a prompt in the tiers: first where it is known at once what they have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from kvtool.cache.backing import StoredBlock, StoredDonor
from kvtool.cache.block_pool import Tokens
from kvtool.cache.gaps import gaps
from kvtool.reuse.choose import choose
from kvtool.reuse.donors import CONTEXT_TOKENS, choose_donors
from kvtool.reuse.planner import Rules
from kvtool.reuse.run import Run
from kvtool.reuse.runs import find_runs
from kvtool.tiers.text.listing import FindsText, ListsText
from kvtool.tiers.text.mirror import Mirror
from kvtool.tiers.text.places import places_of
from kvtool.tiers.text.stored_text import StoredText
from kvtool.tiers.tier import Tier

IsWorth = Callable[[Sequence[StoredBlock], int], bool]
MAX_MIRRORS = 16  # namespaces: salts and adapters in use


class TextSearch:
    """tiers: fastest first. Where a text was found in several places, the copy that `rules` prefer
    is used, and of each of its blocks the one in the fastest tier. is_worth: whether loading these
    blocks takes less time than computing so many tokens."""

    def __init__(self, tiers: Sequence[Tier], block_size: int, is_worth: IsWorth) -> None:
        self._tiers = tuple(tiers)
        self._is_worth = is_worth
        self._block_size = block_size
        self._listing = [tier for tier in tiers if isinstance(tier, ListsText)]
        self._finding = [tier for tier in tiers if isinstance(tier, FindsText)]
        self._mirrors: dict[bytes, Mirror] = {}  # the last used one last

    def donors(
        self, tokens: Tokens, pieces: Sequence[tuple[int, int]], namespace: bytes, rules: Rules
    ) -> list[StoredDonor]:
        """Stored runs in these ranges of the prompt, which do not overlap; by start.

        A tier that cannot list its text is asked once, for what no other has.
        """
        found: dict[Run, StoredDonor] = {}
        for source in self._sources(tokens, pieces, namespace, rules, found):
            for first, stop in _uncovered(pieces, found, rules):
                for run in best_runs(tokens[:stop], first, source, namespace, rules):
                    found.update(self._donors_of(run, source, tokens, rules))
        return [found[run] for run in sorted(found)]

    def _sources(
        self,
        tokens: Tokens,
        pieces: Sequence[tuple[int, int]],
        namespace: bytes,
        rules: Rules,
        found: Collection[Run],
    ) -> Iterator[StoredText]:
        """Made when they are wanted; `found` grows meanwhile."""
        if self._listing:
            yield self._mirror(namespace).update()
        for tier in self._finding:
            wanted = [tokens[first:stop] for first, stop in _uncovered(pieces, found, rules)]
            if wanted:
                source = StoredText(namespace, self._block_size)
                for run, head in tier.find_text(namespace, wanted):
                    source.add(run, 0, head)
                yield source

    def _mirror(self, namespace: bytes) -> Mirror:
        mirror = self._mirrors.pop(namespace, None)
        if mirror is None:
            mirror = Mirror(self._listing, namespace, self._block_size)
            while len(self._mirrors) >= MAX_MIRRORS:
                del self._mirrors[next(iter(self._mirrors))]
        self._mirrors[namespace] = mirror
        return mirror

    def _donors_of(
        self, run: Run, source: StoredText, tokens: Tokens, rules: Rules
    ) -> Iterator[tuple[Run, StoredDonor]]:
        """As much of a run, in one piece, as the tiers really have and is worth it; or nothing."""
        places = places_of(self._tiers, source, run, tokens)
        if places is None or places.stop - places.start < rules.limits.min_run:
            return
        run = run.cut(places.start, places.stop, self._block_size)
        kept = run.num_tokens - rules.repair.cost(run.num_tokens, run.at_sink, self._block_size)
        if not self._is_worth(places.blocks, kept):
            return
        first = run.blocks[0]
        rows = source.tokens(list(run.blocks)).reshape(-1)
        yield (
            run,
            StoredDonor(
                start=run.start,
                stop=run.stop,
                offset=run.offset,
                blocks=places.blocks,
                tokens=rows[: sum(block.num_tokens for block in places.blocks)],
                home=source.home(first),
                first_token=source.first_token(first),
                context=source.context(first, 0, CONTEXT_TOKENS),
            ),
        )


def best_runs(
    tokens: Tokens, first: int, source: StoredText, namespace: bytes, rules: Rules
) -> list[Run]:
    """The runs to use in prompt positions [first, n); by start."""
    limits = rules.limits
    found = find_runs(tokens, first, source, namespace, limits=limits).runs
    chosen = choose(found, rules.repair, limits.min_run, source.block_size)
    return choose_donors(chosen, found, tokens, [source], rules.ranking, limits.min_run)


def _uncovered(
    pieces: Sequence[tuple[int, int]], found: Collection[Run], rules: Rules
) -> list[tuple[int, int]]:
    """What is left of the pieces, where it is long enough for a run."""
    runs = sorted(found)
    left = (gap for start, stop in pieces for gap in gaps(start, stop, runs))
    return [(start, stop) for start, stop in left if stop - start >= rules.limits.min_run]
