"""Nothing that a test converts or hashes is left in the user's cache, except the demo model."""

import platformdirs
import pytest


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda app: str(folder / app))
    return folder
