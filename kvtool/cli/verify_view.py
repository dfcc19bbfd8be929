"""What --verify found, for people: one reply in full, or a batch in summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from kvtool.cli.completion import APPROXIMATE
from kvtool.cli.results import Completion

Rows = list[tuple[str, str]]


def verify_rows(result: Completion) -> Rows:
    """Of a verified reply; numbers are rounded, the JSON document has them in full."""
    assert result.verify is not None
    found = dict(result.verify)
    is_moved = found["verdict"] == APPROXIMATE
    reused = _reused_line(found.pop("reused_tokens"), result.usage.prompt_tokens, is_moved)
    stated = {name: value for name, value in found.items() if value is not None}
    return [
        ("reused_tokens", reused),
        *((name, _rounded(value)) for name, value in stated.items()),
    ]


def batch_verify_rows(results: Sequence[Completion]) -> Rows:
    """Of verified replies, one or more."""
    found: list[Mapping[str, Any]] = [result.verify for result in results if result.verify]
    prompt_tokens = sum(result.usage.prompt_tokens for result in results)
    verdicts = Counter(one["verdict"] for one in found)
    reused, is_moved = sum(one["reused_tokens"] for one in found), APPROXIMATE in verdicts
    return [
        ("replies verified", str(len(found))),
        ("with reused tokens", str(sum(one["reused_tokens"] > 0 for one in found))),
        ("reused_tokens", _reused_line(reused, prompt_tokens, is_moved)),
        *_exact_rows([one for one in found if one["verdict"] != APPROXIMATE], is_moved),
        *_approximate_rows([one for one in found if one["verdict"] == APPROXIMATE]),
        ("verdicts", ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())),
    ]


def _exact_rows(found: Sequence[Mapping[str, Any]], is_moved: bool) -> Rows:
    """is_moved: others are not exact."""
    if not found:
        return []
    worst = max(found, key=lambda one: one["max_abs_logit_diff"] / one["tolerance"])
    difference, tolerance = (_rounded(worst[k]) for k in ("max_abs_logit_diff", "tolerance"))
    name = "worst max_abs_logit_diff" + (" without moved text" if is_moved else "")
    return [(name, f"{difference}, tolerance {tolerance}")]


def _approximate_rows(found: Sequence[Mapping[str, Any]]) -> Rows:
    """Of replies with moved text: means over them, without a limit."""
    if not found:
        return []
    kl, top1 = (fmean(one[name] for one in found) for name in ("kl_mean", "top1_agreement"))
    return [("with moved text", f"{len(found)}: mean KL {kl:.3g}, top-1 agreement {top1:.3g}")]


def _reused_line(reused: Any, prompt_tokens: int, is_moved: bool) -> str:
    nothing = "" if reused else ": nothing was reused"
    where = "from the cache, moved text included" if is_moved else "from the cache"
    return f"{reused} of {prompt_tokens} prompt tokens came {where}{nothing}"


def _rounded(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
