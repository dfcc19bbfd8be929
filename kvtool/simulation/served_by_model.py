"""What a loaded model did with each request of a trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from kvtool.engine.verify import Verification
from kvtool.replay.outcome import RequestOutcome

APPROXIMATE = "approximate"  # of moved text: how far off it is, is told and is no failure


@dataclass(slots=True)
class ModelServing:
    """effective: of the runtime. rows: JSON-able, in the order in which requests ended."""

    effective: Mapping[str, object]
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, outcome: RequestOutcome) -> None:
        self.rows.append(
            {
                "id": outcome.id,
                "prompt_tokens": outcome.prompt_tokens,
                "cached_tokens": outcome.cached_tokens,
                "shifted_tokens": outcome.shifted_tokens,
                "recomputed_tokens": outcome.recomputed_tokens,
                "computed_tokens": outcome.computed_tokens,
                "completion_tokens": outcome.output_tokens,
                "cached_by_tier": dict(outcome.cached_by_tier),
                "ttft_ms": round(1000 * outcome.ttft_s, 3),
                "total_ms": round(1000 * (outcome.end_s - outcome.arrival_s), 3),
                "verify": _verify(outcome),
            }
        )

    @property
    def quality(self) -> dict[str, Any] | None:
        """Over the verified requests; None where none was."""
        found = [row["verify"] for row in self.rows if row["verify"]]
        if not found:
            return None
        return {
            "requests": len(found),
            "kl_mean": fmean(one["kl_mean"] for one in found),
            "top1_agreement": fmean(one["top1_agreement"] for one in found),
            "max_abs_logit_diff": max(one["max_abs_logit_diff"] for one in found),
            "verdicts": dict(Counter(one["verdict"] for one in found)),
        }

    @property
    def num_different(self) -> int:
        """Requests whose exact reuse changed their logits."""
        return sum((row["verify"] or {}).get("verdict") == "different" for row in self.rows)


def _verify(outcome: RequestOutcome) -> dict[str, Any] | None:
    verification: Verification | None = outcome.verification
    if verification is None:
        return None
    found = asdict(verification)
    if outcome.shifted_tokens:
        found |= {"tolerance": None, "verdict": APPROXIMATE}
    return found
