"""What was taken for granted: said in every report, so that no figure rests on a silent guess."""

from __future__ import annotations

from typing import Any

from kvtool.sizing.formats import KVFormat
from kvtool.sizing.gpus import gpu
from kvtool.sizing.layers import LATENT, STATE
from kvtool.sizing.model_spec import ModelSpec
from kvtool.sizing.request import SizeRequest
from kvtool.sizing.variants import GQA_HEADS, LATENT_DIM, ROPE_DIM


def assumptions(model: ModelSpec, request: SizeRequest, fmt: KVFormat) -> tuple[str, ...]:
    found = [*model.assumptions, *_lengths(model, request), *_layers(model, request, fmt)]
    found.append(
        f"variants: GQA of at most {GQA_HEADS} KV heads where the model has none, MLA of "
        f"{LATENT_DIM} latent + {ROPE_DIM} rope values"
    )
    if request.gpu is not None:
        found.append(f"{request.gpu}: {gpu(request.gpu).source}")
        found.append(
            "weights divided evenly over tensor and pipeline ranks; overhead "
            f"{request.overhead / 2**30:.1f} GiB a GPU (measured: 4.9 to 7.5 on an H100)"
        )
    return tuple(found)


def _lengths(model: ModelSpec, request: SizeRequest) -> list[str]:
    limit = request.max_model_len or model.max_model_len
    if limit is None:
        return [
            "no maximum length known: the contiguous reservation is for --tokens "
            "(give --max-model-len)"
        ]
    if request.tokens > limit:
        return [f"{request.tokens} tokens are more than the maximum length {limit}"]
    return []


def _layers(model: ModelSpec, request: SizeRequest, fmt: KVFormat) -> list[str]:
    caches = [c for row in model.layers for c in row]
    found = []
    if model.num_draft_layers:
        found.append(
            f"{model.num_draft_layers} draft layer(s) counted in mtp_bytes and allocated_bytes; "
            "engines load them only to draft (--no-mtp leaves them out)"
        )
    if any(c.kind == STATE for c in caches):
        found.append("state: convolution in 2-byte values, recurrence in fp32, one copy a sequence")
        if request.tp > 1:
            found.append("state divided evenly over tensor ranks")
    if any(c.index_dim for c in caches):
        found.append("indexer keys in fp8 with one fp32 scale a token, whatever the KV dtype")
    if any(c.kind == LATENT for c in caches):
        found.append("latents are whole on every tensor rank")
    if fmt.source:
        found.append(f"{fmt.name} as in {fmt.source}")
    if fmt.residual_tokens:
        found.append(f"the newest {fmt.residual_tokens} tokens of a sequence stay in 16 bit")
    return found


def effective(request: SizeRequest, fmt: KVFormat, reserved_tokens: int) -> dict[str, Any]:
    """The settings in force, aliases resolved."""
    return {
        "tokens": request.tokens,
        "batch": request.batch,
        "prefix_share": request.prefix_share,
        "prompt_tokens": request.prompt_tokens,
        "kv_dtype": fmt.name,
        "block_size": request.block_size,
        "max_model_len": reserved_tokens,
        "tp": request.tp,
        "pp": request.pp,
        "cp": request.cp,
        "mtp": request.mtp,
        "utilization": None if request.gpu is None else request.utilization,
        "max_num_batched_tokens": request.max_num_batched_tokens,
        "link_bandwidth": dict(request.link_bandwidth),
    }
