"""What the user wants to know about a model's cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvtool.errors import ConfigError
from kvtool.sizing.budget import DEFAULT_OVERHEAD
from kvtool.sizing.parallel import Ranks
from kvtool.sizing.sequence_bytes import Load
from kvtool.sizing.transfer import LINKS

VLLM_FORMULAS = {
    "current": "max_concurrency * max_model_len",
    "legacy": "num_blocks // num_groups * block_size",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeRequest:
    """Field names are the option names; sizes in bytes, lengths in tokens."""

    tokens: int = 4096  # length of each sequence, prompt and reply
    batch: int = 1
    prefix_share: int = 0  # first tokens that all sequences of the batch have in common
    prompt_tokens: int = 0  # of `tokens`; the rest is generated
    encoder_tokens: int | None = None
    mtp: bool = True
    kv_dtype: str = "bfloat16"
    block_size: int = 16
    max_model_len: int | None = None
    tp: int = 1
    pp: int = 1
    cp: int = 1
    memory: int | None = None
    gpu: str | None = None
    utilization: float = 0.9
    weights: int | None = None
    overhead: int = DEFAULT_OVERHEAD
    max_num_batched_tokens: int = 8192
    vllm_formula: str = "current"  # a name in VLLM_FORMULAS
    link_bandwidth: Mapping[str, float] = field(default_factory=lambda: LINKS)  # bytes a second

    def __post_init__(self) -> None:
        if self.memory is not None and self.gpu is not None:
            raise ConfigError("--memory and --gpu exclude each other; give one.")
        if self.max_model_len is not None and self.max_model_len < self.tokens:
            raise ConfigError(
                f"--tokens is {self.tokens}; it must fit into --max-model-len {self.max_model_len}."
            )
        for name in ("prefix_share", "prompt_tokens"):
            if getattr(self, name) > self.tokens:
                option = name.replace("_", "-")
                raise ConfigError(
                    f"--{option} is {getattr(self, name)}; it is part of --tokens {self.tokens}."
                )

    @property
    def ranks(self) -> Ranks:
        return Ranks(tp=self.tp, pp=self.pp, cp=self.cp)

    @property
    def load(self) -> Load:
        return Load(
            tokens=self.tokens,
            batch=self.batch,
            shared=self.prefix_share,
            block_size=self.block_size,
        )
