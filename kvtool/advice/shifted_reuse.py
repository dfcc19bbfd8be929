"""Reuse of text that stands elsewhere than before."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.advice.situation import Proposal, Situation

WHY = (
    "Text that was cached at another position is moved there; the tokens that repair the move are "
    "counted as computed. Moved KV is approximate, so kvtool asks for a passing gate record."
)


def shifted_reuse(situation: Situation) -> Iterator[Proposal]:
    """`--reuse shift` instead of `--reuse prefix`."""
    if situation.has_text and situation.settings.engine.reuse == "prefix":
        changed = situation.with_engine(
            reuse="shift",
            repair=situation.settings.repair,
            min_run=situation.settings.min_run,
        )
        yield Proposal(
            title="Turn shifted reuse on",
            why=WHY,
            replay=changed.replay,
            command="--reuse shift",
        )
