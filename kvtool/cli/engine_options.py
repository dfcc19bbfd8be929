"""The engine options: the same names, defaults and rules for every command that runs a model."""

from __future__ import annotations

from typing import Annotated

from kvtool.cache.eviction import POLICIES
from kvtool.cli.dtypes import parse_dtype
from kvtool.cli.event_target import parse_events
from kvtool.cli.option_groups import OptionGroup
from kvtool.cli.options import CACHE, MODEL, SAMPLING, SCHEDULER, count, one_of, option
from kvtool.cli.parsers import non_empty
from kvtool.cli.shift_options import SHIFT_OPTIONS
from kvtool.cli.sizes import parse_size
from kvtool.cli.storage_options import STORAGE_OPTIONS
from kvtool.config import EngineConfig

DEVICES = ("auto", "cpu", "cuda")
REUSE = ("none", "prefix", "shift")
PREFIX_INDEXES = ("radix", "chain")  # as in kvtool.cache.index, whose import takes too long here

_MODEL_OPTIONS = {
    "model": Annotated[
        str | None,
        option(
            MODEL,
            "-m",
            "--model",
            parser=non_empty,
            metavar="MODEL",
            help="Hugging Face folder, .gguf file or hub id.",
            show_default="the demo model",
        ),
    ],
    "revision": Annotated[
        str | None,
        option(
            MODEL,
            "--revision",
            parser=non_empty,
            metavar="REV",
            help="Branch, tag or commit of a hub id.",
        ),
    ],
    "device": Annotated[
        str, one_of(MODEL, "--device", DEVICES, "Where the model runs; auto: cuda if present.")
    ],
    "dtype": Annotated[
        str,
        option(
            MODEL,
            "--dtype",
            parser=parse_dtype,
            metavar="auto|fp32|bf16|fp16",
            help="auto: bf16 on CUDA and on CPUs with bf16 units, else fp32. Equal tokens with "
            "and without the cache are promised for fp32.",
        ),
    ],
    "threads": Annotated[
        int | None,
        count(
            MODEL,
            "--threads",
            "CPU threads of tensor operations, at most 4 a core; default: torch's choice.",
        ),
    ],
}

_SCHEDULER_OPTIONS = {
    "max_model_len": Annotated[
        int | None,
        count(
            SCHEDULER,
            "--max-model-len",
            "Most tokens of a prompt and its reply; default and upper bound: the model's limit.",
        ),
    ],
    "max_num_seqs": Annotated[int, count(SCHEDULER, "--max-num-seqs", "Most requests in a step.")],
    "max_num_batched_tokens": Annotated[
        int,
        count(
            SCHEDULER,
            "--max-num-batched-tokens",
            "Most tokens in a step; longer prompts are computed in chunks.",
        ),
    ],
    "deterministic": Annotated[
        bool,
        option(
            SCHEDULER,
            "--deterministic",
            help="Bit-identical logits with a cold and a warm cache: one request a step, prompts "
            "in fixed chunks.",
        ),
    ],
    "seed": Annotated[
        int, count(SAMPLING, "--seed", "With --temperature: equal seeds, equal replies.", minimum=0)
    ],
}

_CACHE_OPTIONS = {
    "block_size": Annotated[
        int, count(CACHE, "--block-size", "Token slots in a block, at most those of the context.")
    ],
    "kv_memory": Annotated[
        int | None,
        option(
            CACHE,
            "--kv-memory",
            parser=parse_size,
            metavar="SIZE",
            help="Memory of the block pool, such as 2GiB; default: room for four requests of the "
            "longest length, within a quarter of the free memory.",
        ),
    ],
    "kv_blocks": Annotated[
        int | None, count(CACHE, "--kv-blocks", "Blocks of the pool, in place of --kv-memory.")
    ],
    "prefix_index": Annotated[
        str,
        one_of(
            CACHE,
            "--prefix-index",
            PREFIX_INDEXES,
            "radix: hits to the token; chain: hits in whole blocks.",
        ),
    ],
    "reuse": Annotated[
        str,
        one_of(
            CACHE,
            "--reuse",
            REUSE,
            "none: every prompt is computed from its start. prefix: exact, what a prompt begins "
            "with. shift: also text computed at another position; approximate, see --ungated.",
        ),
    ],
    "evict": Annotated[
        str, one_of(CACHE, "--evict", tuple(POLICIES), "Which cached blocks go first.")
    ],
    "salt": Annotated[
        str | None,
        option(CACHE, "--salt", metavar="TEXT", help="Other salts never share KV with this one."),
    ],
    "events": Annotated[
        str | None,
        option(
            CACHE,
            "--events",
            parser=parse_events,
            metavar="FILE",
            help="Write BlockStored, BlockRemoved, AllBlocksCleared and RunReused (moved text) as JSON "
            "Lines; not to stdout.",
        ),
    ],
}

ENGINE = OptionGroup(
    EngineConfig,
    _MODEL_OPTIONS | _SCHEDULER_OPTIONS | _CACHE_OPTIONS | SHIFT_OPTIONS | STORAGE_OPTIONS,
)
