"""What a simulation advises, and what proves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from kvtool.advice.rewrite import Rewrite
from kvtool.replay.totals import Totals


class Figures(NamedTuple):
    """Tokens of one replay, each as in its `Totals`."""

    prompt_tokens: int
    hit_tokens: int
    shifted_tokens: int
    recomputed_tokens: int
    computed_tokens: int

    @classmethod
    def of(cls, totals: Totals) -> Figures:
        return cls._make(getattr(totals, name) for name in cls._fields)

    @property
    def reused_tokens(self) -> int:
        """Found in the cache, in front or moved; what repair computes again is not among them."""
        return self.hit_tokens + self.shifted_tokens

    @property
    def work_tokens(self) -> int:
        """What the model works on: computed ones, and those that repair computes again."""
        return self.computed_tokens + self.recomputed_tokens

    def as_json(self) -> dict[str, Any]:
        whole = self.prompt_tokens or 1
        return {
            **self._asdict(),
            "hit_rate": self.hit_tokens / whole,
            "reused_tokens": self.reused_tokens,
            "reused_rate": self.reused_tokens / whole,
            "work_tokens": self.work_tokens,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """id: the kind. parts: kinds of a combination. after: of the replay that proves it, at the
    same capacity unless the advice is another one. diff: of the first prompt that it changes.
    command: what does it with kvtool. rewrite: what makes the changed trace, None for a setting.
    """

    id: str
    title: str
    why: str
    before: Figures
    after: Figures
    parts: tuple[str, ...] = ()
    diff: str | None = None
    command: str | None = None
    rewrite: Rewrite | None = None

    @property
    def gain_tokens(self) -> int:
        """Prompt tokens that need not be computed any more."""
        return self.before.work_tokens - self.after.work_tokens

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "title": self.title,
            "why": self.why,
            "parts": list(self.parts),
            "before": self.before.as_json(),
            "after": self.after.as_json(),
            "gain_tokens": self.gain_tokens,
            "diff": self.diff,
            "command": self.command,
        }
