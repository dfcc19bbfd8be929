"""Time to move one batch's KV: prefill to decode machines, or to host memory and back.

Effective bandwidths of one direction; give your own with --link-bandwidth.
"""

from __future__ import annotations

from collections.abc import Mapping

LINKS: Mapping[str, float] = {  # bytes a second
    "nvlink4": 450e9,
    "infiniband-400g": 50e9,
    "pcie5-x16": 50e9,
    "pcie4-x16": 25e9,
    "ethernet-100g": 12.5e9,
}


def transfer_ms(num_bytes: int, links: Mapping[str, float]) -> dict[str, float]:
    return {name: num_bytes / rate * 1000 for name, rate in links.items()}
