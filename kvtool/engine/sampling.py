"""How the next token is chosen. Plain numbers: the control plane may read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvtool.errors import ConfigError

MAX_BIAS = 10_000
BIAS_RANGE = f"-{MAX_BIAS} to {MAX_BIAS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """temperature 0 is greedy. `stop` are strings, `stop_ids` token ids (EOS ids included).

    The bounds of temperature, repetition penalty and bias keep any sane logit (see
    `sampler.MAX_LOGIT`) inside float32, so that none of them turns a distribution into NaN.

    logprobs N: report the log-probability of each chosen token and the N most likely ones,
    taken from the model's distribution before temperature and filters.
    """

    max_tokens: int = 256
    temperature: float = 0.0
    top_k: int = 0  # 0: off
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    stop: tuple[str, ...] = ()
    stop_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False  # stop_ids are not looked at
    seed: int = 0
    logprobs: int | None = None

    def __post_init__(self) -> None:
        checks = (
            ("max-tokens", self.max_tokens, self.max_tokens >= 1, "at least 1"),
            (
                "temperature",
                self.temperature,
                self.temperature == 0.0 or 0.01 <= self.temperature <= 100.0,
                "0 (greedy), or 0.01 to 100",
            ),
            ("top-k", self.top_k, self.top_k >= 0, "0 (off) or more"),
            ("top-p", self.top_p, 0.0 < self.top_p <= 1.0, "above 0, at most 1"),
            ("min-p", self.min_p, 0.0 <= self.min_p < 1.0, "0 to below 1"),
            (
                "repetition-penalty",
                self.repetition_penalty,
                0.01 <= self.repetition_penalty <= 100.0,
                "0.01 to 100",
            ),
            *(
                (f"logit-bias of token {token}", bias, abs(bias) <= MAX_BIAS, BIAS_RANGE)
                for token, bias in self.logit_bias.items()
            ),
            (
                "logprobs",
                self.logprobs,
                self.logprobs is None or 0 <= self.logprobs <= 100,
                "0 to 100",
            ),
            ("stop", self.stop, all(self.stop), "non-empty strings"),
        )
        for option, value, ok, allowed in checks:
            if not ok:
                raise ConfigError(f"--{option} is {value!r}; allowed: {allowed}.")
