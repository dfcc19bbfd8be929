"""What a record of the gate is about: a model as it computes, and how text is moved in it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256

from kvtool.cache.namespace import Namespace
from kvtool.config import EngineConfig
from kvtool.gate.texts import PROBE_SET
from kvtool.reuse.repair import parse_repair


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """weights: a digest. architecture: class and digest of the config. scheme: --reuse-scheme;
    repair, donor and min_run are the engine options of these names. probe_set: what it was measured on."""

    weights: str
    architecture: str
    rope_regime: str
    compute_dtype: str
    kv_dtype: str
    adapter: str | None
    scheme: str
    repair: str
    donor: str
    min_run: int
    probe_set: int

    @property
    def key(self) -> str:
        """64 hex digits: no two subjects have the same."""
        text = json.dumps(asdict(self), sort_keys=True)
        return sha256(b"kvtool gate\0" + text.encode()).hexdigest()


def subject_of(namespace: Namespace, config: EngineConfig) -> Subject:
    """Of a run with these options. Its salt, block size and tokenizer do not matter: they change
    which text is found, not what moved text does."""
    return Subject(
        weights=namespace.weights,
        architecture=namespace.architecture,
        rope_regime=namespace.rope_regime,
        compute_dtype=namespace.compute_dtype,
        kv_dtype=namespace.kv_dtype,
        adapter=namespace.adapter,
        scheme=config.reuse_scheme,
        repair=str(parse_repair(config.repair)),
        donor=config.donor,
        min_run=config.min_run,
        probe_set=PROBE_SET,
    )
