"""Why a prompt hits or misses a remote store, which answers for keys and cannot list them."""

from __future__ import annotations

from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.block_pool import Tokens
from kvtool.cache.namespace import Namespace
from kvtool.inspection.prompt_span import compute
from kvtool.inspection.served import Rules, served_spans
from kvtool.inspection.why import Explanation, explanation
from kvtool.tiers.tier import Tier


def explain_remote(tier: Tier, namespace: Namespace, tokens: Tokens, rules: Rules) -> Explanation:
    """tokens: of the prompt, int32, at least one. A store keeps full blocks only."""
    keys = BlockKeys(namespace.digest, tokens, namespace.block_size)
    full, size = keys.num_full_blocks, keys.block_size
    blocks = tokens[: full * size].reshape(full, size)
    num_blocks = len(tier.contains(keys.span(0, full), blocks)) if full else 0
    stored = num_blocks * size
    spans = served_spans(keys, stored, rules, tier.name)
    if stored < len(tokens):
        spans.append(compute(stored, len(tokens), "not_in_store"))
    return explanation(namespace, len(tokens), spans)
