"""How each layer's keys depend on their position, measured on the loaded model.

Pairing, rotary width and NoPE layers cannot be read from configs (glm4 interleaves, glm4_moe
does not). So the same token is fed at several positions while attention answers zeros
(capture.py): its hidden state is then the same everywhere, and its keys differ by the rotation
alone. The candidate that explains the difference is the layout.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import torch
from transformers import PreTrainedModel

from kvtool.models.attention_layer import AttentionLayer
from kvtool.models.capture import LayerTrace
from kvtool.models.hf import PagedModel
from kvtool.models.layout import LayerLayout, Layout, Unknown
from kvtool.models.rope_regime import unshiftable_rope
from kvtool_kernels import Rotary, rotate, unit_rotation

# Relative L2 residual that rounding to the dtype can leave (angles in fp32 come on top).
TOLERANCE = {torch.float32: 1e-4, torch.float16: 2e-3, torch.bfloat16: 1e-2}
MARGIN = 10  # how much better than the runner-up the best candidate must be
FIRST = 1  # the position the others are compared with
FARTHEST = 32768  # tokens; beyond, the model's own fp32 angles blur the comparison


def probe_layout(paged: PagedModel) -> Layout:
    """One forward of six tokens; two tokens at positions 1, 2 and about half the context.

    Needs no pools and leaves the model as it was.
    """
    refused = unshiftable_rope(paged.model.config)
    if refused is not None:
        return Layout(tuple(Unknown(refused) for _ in paged.layers))
    deltas = (1, max(2, min(paged.max_model_len // 2, FARTHEST) - FIRST))
    traces = _trace(paged, deltas)
    frequencies = _frequencies(paged.model)
    layers = tuple(_layout_of(trace, deltas, frequencies) for trace in traces)
    chunks = [layer.chunk for layer in paged.layers if layer.chunk is not None]
    return Layout(layers, math.lcm(*chunks))


def _trace(paged: PagedModel, deltas: tuple[int, int]) -> tuple[LayerTrace, ...]:
    """Rows: two tokens at FIRST, then both at each FIRST + delta."""
    tokens = [paged.vocab_size // 3, paged.vocab_size // 2]
    positions = [FIRST + delta for delta in (0, *deltas) for _ in tokens]
    return paged.trace(tokens * (1 + len(deltas)), positions)


def _layout_of(
    trace: LayerTrace, deltas: tuple[int, int], frequencies: list[torch.Tensor]
) -> LayerLayout:
    keys, values = _by_position(trace)
    tolerance = TOLERANCE[trace.spec.dtype] + max(deltas) * 2.0**-23
    if max(_distance(values[0], moved) for moved in values[1:]) > tolerance:
        return Unknown("V depends on the position (learned absolute positions)")
    candidates = list(_candidates(trace.spec, frequencies))
    residuals = [_residual(keys, deltas, candidate) for candidate in candidates]
    best, runner_up = sorted([*residuals, math.inf])[:2]
    if not best <= tolerance:
        return Unknown(f"no known rotation explains its keys (residual {best:.1e})")
    if runner_up < MARGIN * max(best, torch.finfo(torch.float32).eps):
        return Unknown(f"two rotations explain its keys ({best:.1e} and {runner_up:.1e})")
    return candidates[residuals.index(best)]


def _by_position(trace: LayerTrace) -> tuple[torch.Tensor, torch.Tensor]:
    """Stored K rows (MLA: latent and rotated row together) and V, [positions, tokens, ...]."""
    key, value = (tensor[0].transpose(0, 1).float() for tensor in trace.stored)
    if trace.spec.is_latent:
        key, value = torch.cat((key, value), dim=-1), key
    return key.reshape(3, 2, *key.shape[1:]), value.reshape(3, 2, *value.shape[1:])


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).norm() / other.norm())


def _residual(keys: torch.Tensor, deltas: tuple[int, int], candidate: Rotary | None) -> float:
    worst = 0.0
    for delta, moved in zip(deltas, keys[1:], strict=True):
        turned = keys[0]
        if candidate is not None:
            cos, sin = unit_rotation(torch.tensor(delta, device=keys.device), candidate.inv_freq)
            turned = rotate(turned, cos, sin, candidate)
        worst = max(worst, _distance(turned, moved))
    return worst


def _candidates(spec: AttentionLayer, frequencies: list[torch.Tensor]) -> Iterator[Rotary | None]:
    """NoPE, and every frequency set in every place; nanochat turns the other way round."""
    yield None
    for inv_freq in frequencies:
        width = 2 * len(inv_freq)
        starts = {start for start in (0, spec.head_dim - width) if start >= 0}
        pairings = (False, True) if width > 2 else (False,)
        for start, interleaved, sign in product(starts, pairings, (1, -1)):
            yield Rotary(sign * inv_freq, interleaved, start)


def _frequencies(model: PreTrainedModel) -> list[torch.Tensor]:
    """Every distinct set of rotary frequencies in the model, float64 [rotary_dim / 2]."""
    found = [
        buffer.to(torch.float64)
        for name, buffer in model.named_buffers()
        if name.endswith("inv_freq") and "original" not in name and buffer.dim() == 1
    ]
    width = getattr(model.config, "rotary_dim", None)  # GPT-J, CodeGen: a table of sines instead
    if not found and width:
        steps = torch.arange(0, width, 2, dtype=torch.float64, device=model.device)
        found = [10000.0 ** (-steps / width)]
    distinct: dict[tuple[float, ...], torch.Tensor] = {}
    for inv_freq in found:
        distinct.setdefault(tuple(inv_freq.tolist()), inv_freq)
    return list(distinct.values())
