"""`calibration`: the log's own cached tokens against these."""

from __future__ import annotations

from typing import Any

from kvtool.analysis.calibration import Calibration

LISTED = 100


def calibration(found: Calibration) -> dict[str, Any]:
    """The first of the candidates is the replay; of the requests that disagree the worst. best:
    of several candidates where they fit alike."""
    replay, best = found.candidates[0], found.best
    return {
        "requests": found.requests,
        "recorded": {
            "cached_tokens": found.recorded_tokens,
            "prompt_tokens": found.recorded_prompt_tokens,
            "rate": found.recorded_rate,
        },
        "predicted": {
            "cached_tokens": replay.hit_tokens,
            "prompt_tokens": found.prompt_tokens,
            "rate": replay.rate,
        },
        "error_pp": replay.error_pp,
        "mean_abs_error_pp": replay.mean_abs_error_pp,
        "left_out": found.left_out,
        "candidates": [{**one._asdict(), "best": one in best} for one in found.candidates],
        "num_disagreeing": len(found.disagreeing),
        "disagreeing": [one._asdict() for one in found.disagreeing[:LISTED]],
    }
