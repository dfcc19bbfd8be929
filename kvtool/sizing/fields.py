"""A config.json with its many spellings: aliases, nested text configs, checked numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvtool.errors import ModelError

MAX_LAYERS = 10_000  # a larger number is a damaged config
NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers")
HEADS = (
    "num_attention_heads",
    "n_head",
    "n_heads",
    "num_heads",
    "attention_heads",
    "decoder_attention_heads",
)
HIDDEN = ("hidden_size", "n_embd", "d_model", "dim")
MAX_LENGTH = (
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
    "max_target_positions",
    "n_ctx",
)


class Fields:
    """Read access to one (unwrapped) config; collects what had to be assumed."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.values = unwrap(config)
        self.assumptions: list[str] = []

    @property
    def model_type(self) -> str | None:
        found = self.values.get("model_type")
        return found if isinstance(found, str) else None

    def get(self, *names: str) -> Any:
        """The first of these fields that is present and not null."""
        return next((self.values[n] for n in names if self.values.get(n) is not None), None)

    def count(self, *names: str, default: int | None = None) -> int:
        """A whole number of at least 1; `ModelError` where it is missing or something else."""
        value = self.get(*names)
        if value is None:
            if default is None:
                raise ModelError(
                    f"The config has no {names[0]} (also tried: {', '.join(names[1:]) or 'nothing'}).",
                    hint="give the numbers as options: kvtool size-calc --layers L --kv-heads H --head-dim D",
                )
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ModelError(f"{names[0]} is {value!r}; it must be a whole number of at least 1.")
        return value

    def at_least_zero(self, *names: str) -> int:
        value = self.get(*names)
        return 0 if not value else self.count(*names)

    def numbers(self, name: str) -> list[int]:
        value = self.get(name)
        if not isinstance(value, list) or not all(isinstance(v, int) for v in value):
            raise ModelError(f"{name} is {value!r}; it must be a list of whole numbers.")
        return value

    def assume(self, text: str) -> None:
        if text not in self.assumptions:
            self.assumptions.append(text)

    @property
    def num_layers(self) -> int:
        names = self.get("layer_types", "layers_block_type")
        listed = len(names) if isinstance(names, list) and names else None
        number = self.count(*LAYERS, default=listed)
        if number > MAX_LAYERS:
            raise ModelError(f"{number} layers are more than any model has ({MAX_LAYERS}).")
        return number

    @property
    def max_model_len(self) -> int | None:
        return self.count(*MAX_LENGTH) if self.get(*MAX_LENGTH) is not None else None


def unwrap(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of the language model inside a multimodal one; a nested value wins."""
    for name in NESTED:
        inner = config.get(name)
        if isinstance(inner, Mapping):
            outer = {k: v for k, v in config.items() if k != name and not isinstance(v, Mapping)}
            return unwrap(outer | dict(inner))
    return dict(config)
