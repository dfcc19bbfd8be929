"""What a model must do to run on paged KV, checked once when it is loaded.

1. By declaration: a text decoder that takes positions, a cache and rows to keep.
2. By observation (`capture.py`): every layer stores K and V once and then calls the attention
   registry once; nothing else is kept.
3. By result, here: a chunked prefill and a decode through pages give the logits of the model's
   own full forward. Whatever depends on the length of the cache shows up as a difference.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import torch
from transformers import PreTrainedModel

from kvtool.errors import ModelError
from kvtool.models.attention_layer import Unsupported
from kvtool.models.inputs import ForwardInputs, GroupInputs

if TYPE_CHECKING:
    from kvtool.models.hf import PagedModel

# Relative L2 distance of a row of logits, paged against full. Sixteen-bit rows differ by
# rounding, and a tie in an expert router may flip a few of them entirely.
TOLERANCE = {torch.float32: 1e-4, torch.float16: 0.03, torch.bfloat16: 0.15}
ROWS_WITHIN = {torch.float32: 1.0, torch.float16: 0.75, torch.bfloat16: 0.75}

BLOCK_SIZE = 2
BLOCK_TABLES = ((5, 0, 3), (1, 4))  # out of order: positions must come from the table
NUM_BLOCKS = 6
# [start, end) of two sequences, step by step: a prefill, then a chunk beside a decode. The second
# sequence is a prefix of the first, so one full forward answers for both.
STEPS = (((0, 3), (0, 2)), ((3, 5), (2, 3)))
NUM_TOKENS = 5


def cache_argument(model: PreTrainedModel) -> str:
    """How the model's forward calls its cache; raises `Unsupported` if it cannot be driven."""
    config = model.config
    if config.is_encoder_decoder:
        raise Unsupported("it is an encoder-decoder; only decoders are supported")
    if config.get_text_config() is not config:
        raise Unsupported("it is multimodal; only text decoders are supported")
    parameters = inspect.signature(model.forward).parameters
    for name in ("position_ids", "logits_to_keep"):
        if name not in parameters:
            raise Unsupported(f"its forward has no argument {name}")
    for name in ("cache", "past_key_values"):  # Transformers renamed the argument in 5.24
        if name in parameters:
            return name
    raise Unsupported("its forward takes no KV cache")


def check_contract(paged: PagedModel) -> None:
    """Raises `Unsupported` when paged and full forward disagree: 13 rows in three forwards."""
    tokens = (torch.arange(NUM_TOKENS, device=paged.device) * 7919 + 11) % paged.vocab_size
    with torch.inference_mode():
        full = paged.model(input_ids=tokens[None], use_cache=False).logits[0].float()
    _check_finite(paged, full)
    paged.allocate_pools(NUM_BLOCKS, BLOCK_SIZE)
    for pool in paged.pools:
        pool.fill_(float("nan"))  # a read outside the table cannot go unnoticed
    distances = []
    for step in STEPS:
        logits = paged.forward(_inputs(paged, tokens, step))
        expected = torch.cat([full[start:end] for start, end in step])
        distances.append((logits - expected).norm(dim=-1) / expected.norm(dim=-1))
    paged.release_pools()
    distance = float(torch.cat(distances).quantile(ROWS_WITHIN[paged.dtype]))
    if not distance <= TOLERANCE[paged.dtype]:  # NaN fails too
        raise Unsupported(
            f"its logits through paged KV differ from its own forward by {distance:.1e} "
            f"(allowed: {TOLERANCE[paged.dtype]:.0e})"
        )


def _check_finite(paged: PagedModel, logits: torch.Tensor) -> None:
    """Numbers that mean nothing are no matter of paging: the weights are looked at for a culprit."""
    if bool(logits.isfinite().all()):
        return
    named = paged.model.named_parameters()
    broken = next((name for name, p in named if not bool(p.isfinite().all())), None)
    kind = str(paged.dtype).removeprefix("torch.")
    if broken is not None:
        cause = f"its parameter {broken} holds NaN or infinity as {kind}"
    else:
        cause = f"its weights are finite, so its config (RoPE, norms) is wrong or {kind} too narrow"
    raise ModelError(
        f"{paged.architecture} computes logits that are NaN or infinite: {cause}.",
        hint="Try --dtype float32; if that does not help, download or copy the model again.",
    )


class _Sequence(NamedTuple):
    start: int
    end: int
    block_table: Sequence[int]

    def slots(self) -> list[int]:
        places = (divmod(position, BLOCK_SIZE) for position in range(self.start, self.end))
        return [self.block_table[block] * BLOCK_SIZE + offset for block, offset in places]

    def entries(self) -> list[list[int]]:
        starts = range(0, self.end, BLOCK_SIZE)
        return [
            [block, 0, start, min(BLOCK_SIZE, self.end - start), 0]
            for block, start in zip(self.block_table, starts, strict=False)
        ]


def _inputs(
    paged: PagedModel, tokens: torch.Tensor, step: Sequence[tuple[int, int]]
) -> ForwardInputs:
    sequences = [_Sequence(*span, table) for span, table in zip(step, BLOCK_TABLES, strict=True)]
    device = paged.device
    lengths = torch.tensor([0, *(s.end - s.start for s in sequences)])
    tables = [sequence.entries() for sequence in sequences]
    sizes = torch.tensor([0, *map(len, tables)])
    group = GroupInputs(
        slots=torch.tensor([slot for s in sequences for slot in s.slots()], device=device),
        entries=torch.tensor(list(chain(*tables)), dtype=torch.int32, device=device),
        cu_entries=sizes.cumsum(0).to(torch.int32).to(device),
    )
    return ForwardInputs(
        token_ids=torch.cat([tokens[s.start : s.end] for s in sequences]),
        positions=torch.cat([torch.arange(s.start, s.end, device=device) for s in sequences]),
        logits_rows=torch.arange(int(lengths.sum()), device=device),
        cu_seqlens_q=lengths.cumsum(0).to(torch.int32).to(device),
        max_query_len=int(lengths.max()),
        groups=(group,) * len(paged.groups),
    )
