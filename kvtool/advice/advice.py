"""What a simulation advises, and what proves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from kvtool.advice.rewrite import Rewrite
from kvtool.replay.totals import Totals


class Figures(NamedTuple):
    """Tokens of one replay. hit_tokens: found in the cache, moved ones included. computed_tokens:
    what the model worked on, repairs of moved text included."""

    prompt_tokens: int
    hit_tokens: int
    computed_tokens: int

    @classmethod
    def of(cls, totals: Totals) -> Figures:
        return cls(
            totals.prompt_tokens,
            totals.hit_tokens + totals.shifted_tokens,
            totals.computed_tokens + totals.recomputed_tokens,
        )

    def as_json(self) -> dict[str, Any]:
        rate = self.hit_tokens / self.prompt_tokens if self.prompt_tokens else 0.0
        return {**self._asdict(), "hit_rate": rate}


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """id: the kind. parts: kinds of a combination. after: of the replay that proves it, at the
    same capacity unless the advice is another one. diff: of the first prompt that it changes.
    reason: why there is no proof; then nothing is gained. command: what does it with kvtool.
    rewrite: what makes the changed trace, None for a setting.
    """

    id: str
    title: str
    why: str
    before: Figures
    after: Figures
    parts: tuple[str, ...] = ()
    diff: str | None = None
    reason: str | None = None
    command: str | None = None
    rewrite: Rewrite | None = None

    @property
    def gain_tokens(self) -> int:
        """Prompt tokens that need not be computed any more."""
        return self.before.computed_tokens - self.after.computed_tokens

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "title": self.title,
            "why": self.why,
            "parts": list(self.parts),
            "before": self.before.as_json(),
            "after": self.after.as_json(),
            "gain_tokens": self.gain_tokens,
            "replayed": self.reason is None,
            "reason": self.reason,
            "diff": self.diff,
            "command": self.command,
        }
