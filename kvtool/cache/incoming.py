"""Donors on their way from the tiers into the pool."""

from __future__ import annotations

from typing import NamedTuple

from kvtool.cache.backing import Load
from kvtool.reuse.donor_chains import Chain


class Incoming(NamedTuple):
    """load: reads the blocks of `chain`. Until that is over they have a reference more."""

    load: Load
    chain: Chain
