"""What all requests of one trace have in common: the kind of prompt, and a block size."""

from __future__ import annotations

from typing import Literal

from kvtool.traces.block_fit import BlockFit
from kvtool.traces.read_log import BadRecord
from kvtool.traces.trace_request import BlockPrompt, LengthPrompt, Prompt

Kind = Literal["text", "blocks", "lengths"]
_NAMES = {"text": "text", "blocks": "hash ids", "lengths": "lengths only"}


class Consistency:
    """Learns from the requests it is shown; shown them again, it decides the same again."""

    def __init__(self, block_size: int | None) -> None:
        self.kind: Kind | None = None
        self.fit = BlockFit(block_size)

    def check(self, prompt: Prompt) -> None:
        """Raises `BadRecord` for a prompt that does not go with those before it."""
        kind = kind_of(prompt)
        if self.kind not in (None, kind):
            assert self.kind is not None
            had = f"this record has {_NAMES[kind]}, those before have {_NAMES[self.kind]}"
            raise BadRecord("another kind of prompt than before", had)
        if isinstance(prompt, BlockPrompt):
            if prompt.block_size is not None:
                self.fit.state(prompt.block_size)
            self.fit.add(prompt.num_tokens, len(prompt.hash_ids))
        self.kind = kind


def kind_of(prompt: Prompt) -> Kind:
    if isinstance(prompt, BlockPrompt):
        return "blocks"
    return "lengths" if isinstance(prompt, LengthPrompt) else "text"
