"""Nothing that a test converts or hashes is left in the user's cache, except the demo model; KV
as both kvtool and plain Transformers code write it."""

from contextlib import closing
from pathlib import Path

import platformdirs
import pytest
from hf_workplace import NUM_PREFIX, Workplace, save_hf_cache

from kvtool.models.hf_cache import export_prefix


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda app: str(folder / app))
    return folder


@pytest.fixture
def llama(tmp_path: Path) -> Workplace:
    return Workplace.of("llama", tmp_path)


@pytest.fixture
def kvtool_file(llama: Workplace, tmp_path: Path) -> Path:
    """What kvtool exports of the first tokens of the prompt."""
    llama.run(llama.prompt[:NUM_PREFIX], 1)
    with closing(llama.catalog()) as catalog:
        export_prefix(catalog, llama.last_run(catalog), tmp_path / "kvtool.safetensors")
    return tmp_path / "kvtool.safetensors"


@pytest.fixture
def foreign_file(llama: Workplace, tmp_path: Path) -> Path:
    """What plain Transformers code writes."""
    save_hf_cache(tmp_path / "foreign.safetensors", llama.model, llama.prompt[:NUM_PREFIX])
    return tmp_path / "foreign.safetensors"
