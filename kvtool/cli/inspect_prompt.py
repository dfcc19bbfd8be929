"""The prompt that is asked about, put together as `generate` puts it together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kvtool.cache.block_pool import Tokens
from kvtool.cli.inspect_request import InspectRequest
from kvtool.cli.prompt import check_sources, read_prompt
from kvtool.cli.rendering import render_prompt
from kvtool.cli.transcript import Transcript
from kvtool.models.chat import Message

if TYPE_CHECKING:
    from kvtool.models.identity import ModelIdentity


def read_asked(request: InspectRequest) -> list[Message]:
    """Raises `ConfigError` for sources that exclude each other, `InputError` for their content."""
    prompt, files = request.why, request.file or ()
    check_sources(
        prompt,
        files,
        messages=request.messages,
        append=False,
        raw=request.raw,
        system=request.system,
        batch=None,
    )
    asked = read_prompt(prompt, files, request.system) if prompt is not None or files else []
    if request.messages is None:
        return asked
    return [*Transcript.read(request.messages, may_be_empty=bool(asked)).messages, *asked]


def asked_tokens(identity: ModelIdentity, conversation: Sequence[Message], *, raw: bool) -> Tokens:
    """int32, at least one."""
    rendered = render_prompt(
        identity.tokenizer, conversation, raw=raw, vocab_size=identity.vocab_size
    )
    return np.array(rendered.token_ids, dtype=np.int32)
