"""Records of the gate without a measurement."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvtool.cache.namespace import Namespace
from kvtool.config import EngineConfig
from kvtool.gate.cases import MOVED
from kvtool.gate.record import GateRecord
from kvtool.gate.score import CaseResult, Limits, scores
from kvtool.gate.subject import Subject, subject_of

NAMESPACE = Namespace(
    weights="3fa2b1c0" * 8,
    architecture="LlamaForCausalLM c0ffee",
    rope_regime="default",
    compute_dtype="float32",
    kv_dtype="float32",
    kv_layout="block-major",
    block_size=16,
    tokenizer="70ce" * 16,
)


def config(**options: Any) -> EngineConfig:
    return EngineConfig(reuse="shift", **options)


def subject(**fields: Any) -> Subject:
    return replace(subject_of(NAMESPACE, config()), **fields)


def record(kl: float = 0.01, top1: float = 0.95, **fields: Any) -> GateRecord:
    result = CaseResult(MOVED, 400, 150, 50, 41, kl, top1, 0.001)
    values: dict[str, Any] = {
        "model": "tiny",
        "created": "2026-11-30T12:00:00Z",
        "device": "cpu",
        "subject": subject(),
        "limits": Limits(),
        "scores": tuple(scores([result])),
    }
    return GateRecord(**{**values, **fields})
