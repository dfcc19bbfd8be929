"""KV shared between machines through a Mooncake Store, over TCP."""

from kvtool.tiers.mooncake.address import Address, parse_remote
from kvtool.tiers.mooncake.health import StoreHealth, store_health
from kvtool.tiers.mooncake.mooncake import MooncakeTier

__all__ = ["Address", "MooncakeTier", "StoreHealth", "parse_remote", "store_health"]
