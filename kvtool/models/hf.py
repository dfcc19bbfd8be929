"""Any Transformers decoder that routes attention through the registry, on paged KV.

Layers, norms, RoPE and experts stay those of Transformers; only what K and V are written to and
read from is replaced. A batch is one packed row [1, T] with `position_ids`; nothing else tells
the model where a sequence begins, so there is no padding and no mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from transformers import PreTrainedModel

from kvtool.cache.group import GroupSpec
from kvtool.errors import ModelError
from kvtool.models.attention_layer import Unsupported, group_layers
from kvtool.models.attention_switch import AttentionSwitch
from kvtool.models.capture import LayerTrace, trace_layers
from kvtool.models.contract import cache_argument, check_contract
from kvtool.models.inputs import ForwardInputs
from kvtool.models.layout import Layout
from kvtool.models.paged_cache import PagedCache, PagedLayer
from kvtool.models.rope_regime import rope_regime
from kvtool_kernels import RotaryTable


class PagedModel:
    """The adaptor; owns the KV pools, borrows the model.

    groups: the layer groups, in the order of `pools` and of `ForwardInputs.groups`.
    max_model_len: positions the model may be used at; max_model_len_reason says what limits it
    other than the config's own maximum (None: nothing does). rope_regime: part of the cache
    namespace.
    check: compare a few paged tokens with the model's own forward (contract.py).
    Raises `ModelError` for a model that cannot run on paged KV.
    """

    def __init__(self, model: PreTrainedModel, *, check: bool = True) -> None:
        self.model = model
        self.architecture = type(model).__name__
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        self.pools: tuple[torch.Tensor, ...] = ()
        self.layout: Layout | None = None
        self._tables: tuple[RotaryTable | None, ...] | None = None
        self.paged_layers: tuple[PagedLayer, ...] = ()
        self._switch = AttentionSwitch(model)
        try:
            self._cache_argument = cache_argument(model)
            self.vocab_size = int(model.config.vocab_size)
            self.layers = tuple(layer.spec for layer in self.trace((1, 2), (0, 1)))
            self.groups = group_layers(self.layers)
            if check:
                check_contract(self)
        except Unsupported as reason:
            raise _refusal(self.architecture, str(reason)) from reason
        except ModelError:
            raise
        except Exception as error:  # model code, driven in a way its authors may not foresee
            what = f"a probing forward failed with {type(error).__name__}: {error}"
            raise _refusal(self.architecture, what) from error
        regime = rope_regime(model.config)
        self.rope_regime = regime.name
        self.max_model_len = regime.max_model_len
        self.max_model_len_reason = regime.reason

    def trace(self, tokens: Sequence[int], positions: Sequence[int]) -> tuple[LayerTrace, ...]:
        """What each layer would store for these tokens; touches no pool (capture.py)."""
        return trace_layers(self.model, self._switch, self._cache_argument, tokens, positions)

    def allocate_pools(self, num_blocks: int, block_size: int) -> None:
        """One block-major pool a group; memory is committed as blocks are first written.

        kind "kv": [num_blocks, num_layers, 2, num_kv_heads, block_size, head_dim];
        kind "latent": [num_blocks, num_layers, block_size, latent + rope].
        """
        self.pools = tuple(self._pool(group, num_blocks, block_size) for group in self.groups)
        self._bind()

    def release_pools(self) -> None:
        self.pools = ()
        self._bind()

    def use_layout(self, layout: Layout | None, *, unrotated: int | None = None) -> None:
        """From now on entries with a delta turn queries by this layout (layout_probe.py).

        unrotated: keys are cached without their rotation instead, and attention turns queries
        and keys for their positions, which are below this number (unrotated.py).
        """
        assert layout is None or layout.reason is None, layout
        self.layout = layout
        self._tables = None
        if layout is not None and unrotated is not None:
            self._tables = layout.tables(unrotated)
        self._bind()

    def position_ids(self, positions: torch.Tensor) -> torch.Tensor:
        """What the model is told of these: 0, the turn by nothing, where keys stay unrotated."""
        return positions if self._tables is None else torch.zeros_like(positions)

    @torch.inference_mode()
    def forward(self, inputs: ForwardInputs) -> torch.Tensor:
        """Store the KV of all rows; logits of `inputs.logits_rows`, fp32 [R, vocab_size]."""
        return self.run(PagedCache(self.paged_layers, inputs), inputs)

    @torch.inference_mode()
    def run(self, cache: PagedCache, inputs: ForwardInputs) -> torch.Tensor:
        """`forward` on a cache of its own kind, which may end it early by an exception."""
        with self._switch.to(cache.attend):
            out = self.model(
                input_ids=inputs.token_ids[None],
                position_ids=self.position_ids(inputs.positions)[None],
                use_cache=True,
                logits_to_keep=inputs.logits_rows,
                **{self._cache_argument: cache},
            )
        logits: torch.Tensor = out.logits[0]
        return logits.float()

    def _pool(self, group: GroupSpec, num_blocks: int, block_size: int) -> torch.Tensor:
        planes = (2, group.num_kv_heads) if group.kind == "kv" else ()
        shape = (num_blocks, len(group.layers), *planes, block_size, group.head_dim)
        return torch.empty(shape, dtype=getattr(torch, group.dtype), device=self.device)

    def _bind(self) -> None:
        """Each layer gets its view of its group's pool, and its rotation."""
        bound: dict[int, PagedLayer] = {}
        for number, (group, pool) in enumerate(zip(self.groups, self.pools, strict=False)):
            for row, index in enumerate(group.layers):
                layer = PagedLayer(self.layers[index], number, pool[:, row])
                if self._tables is not None:
                    layer = replace(layer, at_read=self._tables[index])
                elif self.layout is not None:
                    layer = replace(layer, rope=self.layout.rotary(index))
                bound[index] = layer
        self.paged_layers = tuple(bound[index] for index in sorted(bound))


def _refusal(architecture: str, reason: str) -> ModelError:
    return ModelError(
        f"{architecture} cannot run on paged KV: {reason}.",
        hint="Choose a decoder that routes attention through Transformers' registry, "
        "for example a Llama, Qwen, Mistral, Gemma or DeepSeek model.",
    )
