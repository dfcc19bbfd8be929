"""`Runtime`: load, check, connect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kvtool.config import CacheConfig, EngineConfig, SchedulerConfig
from kvtool.errors import ConfigError
from kvtool.runtime.effective import effective_options
from kvtool.runtime.event_file import EventFile, fan_out
from kvtool.runtime.host_memory import host_memory_bytes
from kvtool.runtime.moving import prepare_moving
from kvtool.runtime.pool_size import num_blocks_of_pool
from kvtool.runtime.storage import Storage, open_storage
from kvtool.runtime.threads import set_threads, wait_passively

if TYPE_CHECKING:
    from kvtool.cache.events import EventSink
    from kvtool.cache.namespace import Namespace
    from kvtool.engine.engine import Engine
    from kvtool.models.hf import PagedModel
    from kvtool.models.load import LoadedModel
    from kvtool.models.tokenizer import Tokenizer

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """A loaded model behind an engine.

    storage: where KV goes that the engine's block pool cannot keep, or not beyond the process.
    vocab_size: token ids the model has; a tokenizer may have fewer or more.
    effective: the value of every engine option in this run, with defaults and `auto` resolved,
    and what the model adds to them.
    """

    config: EngineConfig
    engine: Engine
    storage: Storage
    tokenizer: Tokenizer
    vocab_size: int
    eos_ids: frozenset[int]
    effective: Mapping[str, object]
    base_namespace: Namespace
    resources: ExitStack = field(default_factory=ExitStack)

    @classmethod
    def open(
        cls,
        config: EngineConfig,
        *,
        events: EventSink | None = None,
        progress: Progress | None = None,
    ) -> Runtime:
        """Load, check and connect. Raises `ModelError`, or `ConfigError` for the options.

        events: gets every cache event, besides the file that `config.events` names.
        progress: gets a line before anything that takes long.
        """
        with ExitStack() as resources:
            sinks = [events] if events else []
            file = None if config.events is None else EventFile(config.events)
            if file is not None:
                resources.callback(file.close)
                sinks.append(file.write)
            loaded, model = _load(config, progress)
            runtime = _compose(config, loaded, model, fan_out(sinks), resources)
            if file is not None:
                file.open()  # last, so that a run that cannot start leaves it alone
            return replace(runtime, resources=resources.pop_all())

    def namespace(self, salt: str | None) -> bytes:
        """What requests with this salt may share KV with."""
        namespace = replace(self.base_namespace, salt=salt)
        if self.storage.tiers is not None:
            fields = {**namespace.described(), "model": self.effective["model"]}
            self.storage.tiers.describe(namespace.digest, fields)
        return namespace.digest

    def flush(self, timeout_s: float | None = None) -> bool:
        """Whether all KV is where it is to be kept, after at most `timeout_s`."""
        return self.storage.flush(timeout_s)

    def close(self, *, flush: bool = True) -> None:
        """flush False: leave at once; KV that is not kept yet is dropped."""
        if flush:
            self.flush()
        self.resources.close()
        self.engine.executor.close()


def _load(config: EngineConfig, progress: Progress | None) -> tuple[LoadedModel, PagedModel]:
    wait_passively()
    from kvtool.models.hf import PagedModel
    from kvtool.models.load import load_model

    if config.threads is not None:
        set_threads(config.threads)
    loaded = load_model(
        config.model,
        revision=config.revision,
        device=config.device,
        dtype=config.dtype,
        progress=progress,
    )
    return loaded, PagedModel(loaded.model)


def _compose(
    config: EngineConfig,
    loaded: LoadedModel,
    model: PagedModel,
    events: EventSink | None,
    resources: ExitStack,
) -> Runtime:
    from kvtool.cache.manager import CacheManager
    from kvtool.engine.engine import Engine
    from kvtool.engine.model_executor import ModelExecutor

    max_model_len = _max_model_len(config.max_model_len, model)
    num_blocks = num_blocks_of_pool(config, model, max_model_len)
    namespace = _namespace(config, loaded, model)
    facts = prepare_moving(config, model, loaded.tokenizer, namespace, max_model_len)
    cache = CacheConfig(
        num_blocks=num_blocks,
        block_size=config.block_size,
        prefix_index=config.prefix_index,
        reuse=config.reuse,
        evict=config.evict,
        donor=config.donor,
        repair=config.repair,
        min_run=config.min_run,
        **facts._asdict(),
    )
    scheduler = SchedulerConfig(
        max_model_len=max_model_len,
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        deterministic=config.deterministic,
    )
    host_memory = host_memory_bytes(config, model, num_blocks)
    storage = open_storage(config, model, namespace, host_memory, events)
    resources.callback(storage.close)
    executor = ModelExecutor(model, num_blocks, config.block_size, storage.tiers)
    manager = CacheManager(model.groups, cache, events=events, backing=storage.tiers)
    return Runtime(
        config=config,
        engine=Engine(executor, manager, scheduler),
        storage=storage,
        tokenizer=loaded.tokenizer,
        vocab_size=model.vocab_size,
        eos_ids=loaded.eos_ids,
        effective={
            **effective_options(config, loaded, model, cache, scheduler),
            "host_memory": host_memory,
        },
        base_namespace=namespace,
    )


def _max_model_len(wanted: int | None, model: PagedModel) -> int:
    """The option, at most the model's own limit: never cut in silence."""
    if wanted is None:
        return model.max_model_len
    if wanted > model.max_model_len:
        reason = f" ({model.max_model_len_reason})" if model.max_model_len_reason else ""
        raise ConfigError(
            f"--max-model-len is {wanted}; the model's limit is {model.max_model_len}{reason}.",
            hint=f"Use --max-model-len {model.max_model_len} or less.",
        )
    return wanted


def _namespace(config: EngineConfig, loaded: LoadedModel, model: PagedModel) -> Namespace:
    from kvtool.models.identity import kv_namespace

    return kv_namespace(
        weights=loaded.weights_digest,
        config=loaded.config_digest,
        tokenizer=loaded.tokenizer.digest,
        architecture=model.architecture,
        rope_regime=model.rope_regime,
        dtype=model.dtype,
        device=model.device,
        block_size=config.block_size,
        deterministic=config.deterministic,
        reuse_scheme=config.reuse_scheme,
    )
