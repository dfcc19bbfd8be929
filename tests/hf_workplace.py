"""A tiny model, its KV on disk, and what Transformers alone makes of the same weights."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import tiny
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, PreTrainedModel

from kvtool.config import EngineConfig
from kvtool.engine.request import Request
from kvtool.engine.sampling import SamplingParams
from kvtool.models.identity import ModelIdentity, model_identity
from kvtool.runtime.runtime import Runtime
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.entry import Entry

DOCS = Path(__file__).parents[1] / "docs" / "hf-cache.md"
BLOCK_SIZE = 4
NUM_PROMPT, NUM_PREFIX, NUM_REPLY = 45, 34, 10  # neither is a multiple of the block size

Tensors = dict[str, torch.Tensor]


def functions_of_docs() -> dict[str, Callable[..., Any]]:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL):
        if "\ndef " in block:
            exec(block, names)
    return names


load_hf_cache = functions_of_docs()["load_hf_cache"]
save_hf_cache = functions_of_docs()["save_hf_cache"]


class Ran(NamedTuple):
    output_ids: list[int]
    cached_tokens: int
    by_tier: dict[str, int]


class Workplace(NamedTuple):
    """A model folder, its KV folder and what Transformers makes of the same weights."""

    folder: Path
    kv: Path
    model: PreTrainedModel
    prompt: torch.Tensor

    @classmethod
    def of(cls, name: str, path: Path) -> Workplace:
        folder = tiny.folder(path / "model", name)
        model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
        generator = torch.Generator().manual_seed(7)
        prompt = torch.randint(3, 200, (NUM_PROMPT,), generator=generator)
        return cls(folder, path / "kv", model, prompt)

    def config(self, **options: Any) -> EngineConfig:
        options = {"dtype": "float32", "block_size": BLOCK_SIZE, "kv_blocks": 40} | options
        return EngineConfig(model=str(self.folder), device="cpu", cache_dir=str(self.kv), **options)

    def run(self, prompt: torch.Tensor, num_reply: int = NUM_REPLY, **options: Any) -> Ran:
        """In a new engine, so that only KV on disk is there."""
        runtime = Runtime.open(self.config(**options))
        request = Request(
            prompt.numpy(),
            SamplingParams(temperature=0.0, max_tokens=num_reply),
            namespace=runtime.namespace(None),
        )
        with closing(runtime):
            list(runtime.engine.run([request]))
        return Ran(request.output_ids, request.num_cached_tokens, request.cached_by_tier)

    def generate(self, **options: Any) -> list[int]:
        """By Transformers alone, unless it is given a cache."""
        out = self.model.generate(
            self.prompt[None],
            max_new_tokens=NUM_REPLY,
            do_sample=False,
            eos_token_id=None,
            **options,
        )
        return out[0, NUM_PROMPT:].tolist()

    def identity(self, **options: Any) -> ModelIdentity:
        given = {"dtype": "float32", "block_size": BLOCK_SIZE} | options
        return model_identity(str(self.folder), device="cpu", **given)

    def catalog(self) -> Catalog:
        return Catalog.open(self.kv, create=True)

    def last_run(self, catalog: Catalog) -> Entry:
        return max(catalog.entries(), key=lambda entry: entry.home + entry.num_tokens)


def metadata_of(path: Path) -> dict[str, str]:
    with safe_open(path, framework="pt") as file:
        return dict(file.metadata() or {})


def rewrite(path: Path, change: Callable[[Tensors], object], **metadata: str) -> None:
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata=metadata_of(path) | metadata)


def damage(folder: Path, key: str) -> None:
    (path,) = (path for path in folder.rglob(f"{key}*") if path.is_file())
    content = bytearray(path.read_bytes())
    content[-4:] = b"\xff\xff\xff\xff"
    path.chmod(0o600)
    path.write_bytes(content)
