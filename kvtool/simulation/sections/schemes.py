"""`schemes` and `memory`: ways to reuse KV, and ways to lay it out."""

from __future__ import annotations

from typing import Any

from kvtool.analysis.scheme import SCHEMES, Scheme
from kvtool.analysis.schemes import SchemeUse
from kvtool.names import lookup
from kvtool.simulation.simulation import Analysis, Simulation

_SHARED = "paged+shared"


def schemes(analysis: Analysis) -> list[dict[str, Any]]:
    return [_scheme(use) for use in analysis.schemes]


def _scheme(use: SchemeUse) -> dict[str, Any]:
    scheme: Scheme = lookup(SCHEMES, use.scheme, "scheme")
    return {
        "scheme": use.scheme,
        "definition": scheme.definition,
        "measurable": use.measurable,
        "reason": use.reason,
        "prompt_tokens": use.prompt_tokens,
        "found_tokens": use.found_tokens,
        "net_tokens": use.net_tokens,
        "token_rate": use.token_rate,
        "net_token_rate": use.net_token_rate,
        "moved_tokens": use.moved_tokens,
        "extra_bytes": use.extra_bytes,
    }


def memory(simulation: Simulation, bytes_per_token: int | None) -> dict[str, Any]:
    """Without content, what would be shared is unknown."""
    shared_is_known = simulation.analysis is not None
    return {
        "concurrency": simulation.concurrency,
        "bytes_per_token": bytes_per_token,
        "layouts": [
            {
                "layout": layout.layout,
                "peak_tokens": layout.peak_tokens,
                "peak_bytes": bytes_per_token and layout.peak_bytes(bytes_per_token),
                "definition": layout.definition,
            }
            for layout in simulation.layouts
            if shared_is_known or layout.layout != _SHARED
        ],
        "working_set_blocks": simulation.accesses.num_blocks if shared_is_known else None,
    }
