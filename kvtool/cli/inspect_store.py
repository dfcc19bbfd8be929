"""`inspect-cache mooncake://…`: what a store that answers for keys, and lists none, can tell."""

from __future__ import annotations

from contextlib import closing

from kvtool.cli.inspect_model import identity_of, rules_of
from kvtool.cli.inspect_prompt import asked_tokens, read_asked
from kvtool.cli.inspect_request import OVERVIEW, InspectRequest
from kvtool.cli.inspect_why import write_explanation
from kvtool.cli.output import talk, write, write_json
from kvtool.cli.printable import printable
from kvtool.config import EngineConfig
from kvtool.errors import CacheError, ConfigError
from kvtool.inspection.why_remote import explain_remote
from kvtool.tiers.mooncake import MooncakeTier, StoreHealth, parse_remote, store_health

CANNOT_LIST = "A store answers for the keys it is asked for and cannot list what it holds."


def look_into_store(action: str, url: str, request: InspectRequest, engine: EngineConfig) -> None:
    """Raises `CacheError` for a store that does not answer."""
    parse_remote(url)
    if action not in (OVERVIEW, "--why"):
        raise ConfigError(
            f"{action} needs a cache folder. {CANNOT_LIST}",
            hint=f'kvtool inspect-cache {url} --why "…" says what of a prompt it has.',
        )
    asked = read_asked(request) if action == "--why" else []
    health = store_health(url)
    if not health.reachable:
        raise CacheError(
            f"{url} does not answer: {health.reason}.", hint="Is its mooncake_master running?"
        )
    if action == OVERVIEW:
        _show_health(url, health, request.format)
        return
    identity = identity_of(engine, request.reuse_scheme)
    tokens = asked_tokens(identity, asked, raw=request.raw)
    with closing(MooncakeTier(url, (), engine.block_size)) as tier:
        explanation = explain_remote(tier, identity.namespace, tokens, rules_of(engine))
    write_explanation(explanation, request.format)


def _show_health(url: str, health: StoreHealth, format: str) -> None:
    """In the shape of a folder's overview, with null for what a store does not tell."""
    if format == "json":
        unknown = dict.fromkeys(("entries", "blocks", "tokens", "bytes", "cap_bytes"))
        tier = {"name": "remote", **unknown, "url": url, "latency_ms": health.latency_ms}
        write_json({"tiers": [tier], "entries": None, "note": CANNOT_LIST})
        return
    answered = "" if health.latency_ms is None else f" in {health.latency_ms:.1f} ms"
    write(f"remote  {printable(url)}  answers{answered}\n{CANNOT_LIST}\n")
    talk(f'hint: kvtool inspect-cache {url} --why "…" says what of a prompt it has.')
