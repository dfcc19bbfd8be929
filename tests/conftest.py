"""One thread, no network, no colour, no kept KV: every test sees the same machine."""

import os
from itertools import count
from pathlib import Path

import pytest

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["NO_COLOR"] = "1"
os.environ["TERM"] = "dumb"
os.environ.pop("FORCE_COLOR", None)
os.environ.pop("GITHUB_ACTIONS", None)
if not Path("/dev/nvidia0").exists():
    os.environ["TRITON_INTERPRET"] = "1"  # before any kernel module is imported

from hypothesis import settings

settings.register_profile("kvtool", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("soak", deadline=None, print_blob=True)  # other cases on every run
settings.load_profile(os.environ.get("KVTOOL_TEST_PROFILE", "kvtool"))


def pytest_sessionstart() -> None:
    import kvtool

    root = Path(__file__).parent.parent
    assert Path(kvtool.__file__).is_relative_to(root), f"these tests would test {kvtool.__file__}"

    import torch

    torch.set_num_threads(1)


_cache_folders = count()


@pytest.fixture(autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test keeps KV, and no other; not made before it is used."""
    folder = tmp_path_factory.getbasetemp() / f"kv-{next(_cache_folders)}"
    monkeypatch.setenv("KVTOOL_CACHE_DIR", str(folder))
    return folder
