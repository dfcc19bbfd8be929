"""What turns the text of a trace into token ids: a model's tokenizer, or one that needs no model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvtool.cli.simulate_options import SimulateRequest
from kvtool.config import EngineConfig
from kvtool.gate.check import DEMO
from kvtool.traces.rendering import Rendering

if TYPE_CHECKING:
    from kvtool.models.tokenizer import Tokenizer
    from kvtool.runtime import Runtime


def rendering_for(
    request: SimulateRequest, engine: EngineConfig, runtime: Runtime | None
) -> Rendering:
    """Raises `ModelError` for a tokenizer that cannot be loaded."""
    if runtime is not None:
        return _of_model(runtime.tokenizer, str(runtime.effective["model"]))
    if request.tokenizer is None:
        from kvtool.traces.fallback_tokenizer import FallbackTokenizer
        from kvtool.traces.plain_rendering import PlainRendering

        return PlainRendering(FallbackTokenizer())
    from kvtool.cli.inspect_model import identity_of

    model = None if request.tokenizer == DEMO else request.tokenizer
    identity = identity_of(replace(EngineConfig(revision=engine.revision), model=model))
    return _of_model(identity.tokenizer, identity.name)


def _of_model(tokenizer: Tokenizer, name: str) -> Rendering:
    """A model without a chat template gets the plain form, by its own tokens."""
    from kvtool.models.chat_tokenizer import ChatTokenizer
    from kvtool.traces.plain_rendering import PlainRendering
    from kvtool.traces.template_rendering import TemplateRendering

    chat = ChatTokenizer(tokenizer, name)
    return TemplateRendering(chat) if tokenizer.has_chat_template else PlainRendering(chat)
