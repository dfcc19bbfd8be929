"""Run a Transformers model with an attention function of ours, for the length of a `with`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from transformers import PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

Attend = Callable[..., tuple[torch.Tensor, None]]
MakeMask = Callable[..., torch.Tensor]


class AttentionSwitch:
    """One model's entry in the attention registry, under a name of its own.

    Between two `with` blocks the model is as Transformers made it, so its own forward can be
    called and models never see each other's functions. Changing the name on the configs takes
    microseconds; `set_attn_implementation` walks all modules (0.4 ms on 30 layers).
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._name = f"kvtool_{id(self):x}"
        modules = (module for module in model.modules() if isinstance(module, PreTrainedModel))
        self._configs = list({id(module.config): module.config for module in modules}.values())

    @contextmanager
    def to(self, attend: Attend, make_mask: MakeMask | None = None) -> Iterator[None]:
        """Attention goes to `attend`; without `make_mask` the model makes no masks (None)."""
        before = [config._attn_implementation for config in self._configs]
        ALL_ATTENTION_FUNCTIONS[self._name] = attend
        if make_mask is not None:  # the masking code looks at the class-wide entries only
            ALL_MASK_ATTENTION_FUNCTIONS.register(self._name, make_mask)
        try:
            for config in self._configs:
                config._attn_implementation = self._name
            yield
        finally:
            for config, name in zip(self._configs, before, strict=True):
                config._attn_implementation = name
            del ALL_ATTENTION_FUNCTIONS[self._name]
            ALL_MASK_ATTENTION_FUNCTIONS._global_mapping.pop(self._name, None)
