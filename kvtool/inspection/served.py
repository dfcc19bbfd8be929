"""What the engine takes of the leading tokens that are stored."""

from __future__ import annotations

from typing import NamedTuple

from kvtool.cache.block_keys import BlockKeys
from kvtool.inspection.prompt_span import Span, compute, hit


class Rules(NamedTuple):
    """whole_blocks: hits end at block boundaries (--prefix-index chain). chunk: hits are multiples
    of so many tokens (--deterministic)."""

    whole_blocks: bool = False
    chunk: int = 1


def served_spans(keys: BlockKeys, stored: int, rules: Rules, tier: str) -> list[Span]:
    """Spans that tile [0, stored): a hit, and what is stored and computed all the same."""
    served = _served_tokens(keys, stored, rules)
    spans = [hit(0, served, tier)] if served else []
    if served < stored:
        spans.append(compute(served, stored, _reason(keys, served, rules)))
    return spans


def _served_tokens(keys: BlockKeys, stored: int, rules: Rules) -> int:
    grain = keys.block_size if rules.whole_blocks else 1
    in_grain = min(stored // grain * grain, len(keys.tokens) - 1)
    return in_grain // rules.chunk * rules.chunk


def _reason(keys: BlockKeys, served: int, rules: Rules) -> str:
    if rules.chunk > 1:
        return "whole_chunks"
    return "last_token" if served == len(keys.tokens) - 1 else "whole_blocks"
