"""The model whose KV is asked about: its namespace and tokenizer, without its weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kvtool.cli.loading import logged_warnings
from kvtool.cli.progress import progress
from kvtool.config import EngineConfig, SchedulerConfig
from kvtool.errors import ConfigError
from kvtool.inspection.first_difference import Decode
from kvtool.inspection.served import Rules
from kvtool.tiers.disk.entry import Entry

if TYPE_CHECKING:
    from kvtool.models.identity import ModelIdentity


def identity_of(engine: EngineConfig, reuse_scheme: str | None = None) -> ModelIdentity:
    """reuse_scheme: how the run kept its keys; None: by default. Raises `ModelError`, or `ConfigError` for the options."""
    with logged_warnings(), progress("Reading the tokenizer") as say:
        from kvtool.models.identity import model_identity

        return model_identity(
            engine.model,
            revision=engine.revision,
            device=engine.device,
            dtype=engine.dtype,
            block_size=engine.block_size,
            salt=engine.salt,
            deterministic=engine.deterministic,
            reuse_scheme=reuse_scheme or engine.reuse_scheme,
            progress=say,
        )


def decoder_for(engine: EngineConfig, entries: Iterable[Entry]) -> dict[str, Decode]:
    """How to read the tokens of namespaces with the model's tokenizer, by the tokenizer's digest.

    Raises `ConfigError` where none of the stored runs was made with it.
    """
    identity = identity_of(engine)
    digest = identity.tokenizer.digest
    if entries and all(entry.fields.get("tokenizer") != digest for entry in entries):
        raise ConfigError(
            f"Nothing stored was made with the tokenizer of {identity.name}.",
            hint="Name the model with -m, or leave out --show-text.",
        )
    return {digest: identity.tokenizer.decode}


def rules_of(engine: EngineConfig) -> Rules:
    chunk = SchedulerConfig(max_model_len=1).deterministic_chunk
    return Rules(
        whole_blocks=engine.prefix_index == "chain", chunk=chunk if engine.deterministic else 1
    )
