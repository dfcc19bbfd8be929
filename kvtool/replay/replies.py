"""The symbols of replies: the recorded ones, or such as no other request has."""

from __future__ import annotations

import numpy as np

from kvtool.engine.request import Request
from kvtool.engine.sampling import SamplingParams
from kvtool.traces.prepared import PreparedRequest, Symbols, Unit

_MAX_FRESH = 2**31 - 1


class Replies:
    """Turns requests of a trace into requests of an engine.

    output_kv: the reply's KV goes through the cache as well. Of a text trace it is decoded token
    by token. Of a hash-id trace, whose blocks no decode fills evenly, it is written with the
    prompt: the moment is that of the first token. Without it, a request leaves the engine with its
    first token, as on a worker that only computes prompts.
    """

    def __init__(self, unit: Unit, *, output_kv: bool) -> None:
        self._unit = unit
        self._output_kv = output_kv
        self._num_fresh = 0

    def num_symbols(self, prepared: PreparedRequest) -> int:
        """What the request takes of the cache; the last token of a reply is never fed back."""
        num_prompt, num_tokens = len(prepared.symbols), prepared.num_tokens
        length = num_output_tokens(prepared)
        if not self._output_kv or not length:
            return num_prompt
        if self._unit.tokens_per_symbol == 1:
            return num_prompt + length - 1
        return max(num_prompt, -(-(num_tokens + length - 1) // self._unit.tokens_per_symbol))

    def request(self, prepared: PreparedRequest) -> Request:
        behind = self.num_symbols(prepared) - len(prepared.symbols)
        prompt, reply = prepared.symbols, [0]
        if behind and self._unit.tokens_per_symbol > 1:
            prompt = np.concatenate([prompt, self._fresh(behind)])
        elif behind:
            known = len(prepared.reply) > 0
            reply = (prepared.reply if known else self._fresh(behind + 1)).tolist()
        return Request(
            prompt,
            SamplingParams(max_tokens=len(reply), ignore_eos=True),
            namespace=prepared.namespace,
            priority=prepared.request.priority,
            forced_ids=tuple(reply),
            name=prepared.request.id,
        )

    def decode_s(self, prepared: PreparedRequest, step_s: float) -> float:
        """From first to last token, where the engine does not decode the reply."""
        if self._output_kv and self._unit.tokens_per_symbol == 1:
            return 0.0
        return max(0, num_output_tokens(prepared) - 1) * step_s

    def _fresh(self, count: int) -> Symbols:
        """Negative: a trace's own symbols are not."""
        first = self._num_fresh + 1
        self._num_fresh += count
        assert self._num_fresh <= _MAX_FRESH, "more replies than symbols"
        return -np.arange(first, first + count, dtype=np.int32)


def num_output_tokens(prepared: PreparedRequest) -> int:
    """Of the recorded reply; 0: nothing is known of it."""
    return len(prepared.reply) or prepared.num_output_tokens
