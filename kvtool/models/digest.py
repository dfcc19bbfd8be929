"""Digests that say which weights, settings and tokenizer a cached key belongs to (no torch).

Hashing gigabytes at each start is avoided in two ways: a file in the hub cache is named by its
sha256, and the sha256 of any other file is remembered together with what changes when the file
does (size, times, inode).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import platformdirs

Progress = Callable[[str], None]

_SHA256 = re.compile(r"[0-9a-f]{64}")

_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "special_tokens_map.json",
)

# Fields of config.json that do not change what the model computes, or that the namespace carries
# as a field of its own (dtype).
_COSMETIC = frozenset(
    {
        "_name_or_path",
        "_commit_hash",
        "_attn_implementation",
        "transformers_version",
        "torch_dtype",
        "dtype",
        "use_cache",
        "auto_map",
        "output_attentions",
        "output_hidden_states",
        "return_dict",
    }
)


def models_dir() -> Path:
    """Where converted models and remembered digests live (never the KV cache folder)."""
    return Path(platformdirs.user_cache_dir("kvtool")) / "models"


def config_digest(config: Mapping[str, Any]) -> str:
    """sha256 of the canonical JSON of a model's config.json without its cosmetic fields."""
    return combine([canonical_json(_without_cosmetic(config))])


def canonical_json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def weights_digest(files: Iterable[Path], progress: Progress | None = None) -> str:
    """One digest over the contents of all weight files, wherever they lie and are called."""
    return combine(sorted(file_digest(file, progress).encode() for file in files))


def tokenizer_digest(folder: Path) -> str:
    """One digest over the files that decide which ids a text becomes (not the chat template)."""
    parts = []
    for name in _TOKENIZER_FILES:
        path = folder / name
        parts += [name.encode(), path.read_bytes() if path.is_file() else b""]
    settings = folder / "tokenizer_config.json"
    if settings.is_file():
        content = json.loads(settings.read_text("utf-8"))
        content.pop("chat_template", None)
        parts.append(canonical_json(content))
    return combine(parts)


def combine(parts: Iterable[bytes]) -> str:
    """sha256 over length-framed parts."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def file_digest(path: Path, progress: Progress | None = None) -> str:
    """sha256 of the file; read at most once as long as the file does not change.

    `progress` gets a line when a file of more than a gigabyte has to be read.
    """
    real = path.resolve()
    if real.parent.name == "blobs" and _SHA256.fullmatch(real.name):
        return real.name  # hub cache: large files are stored under their sha256
    remembered = _read_remembered()
    identity = _identity(real)
    known = remembered.get(str(real))
    if isinstance(known, list) and known[:-1] == identity and isinstance(known[-1], str):
        return known[-1]
    if progress and identity[0] > 1 << 30:
        progress(f"Hashing {path.name} (once)")
    digest = _hash(real)
    _write_remembered(remembered | {str(real): [*identity, digest]})
    return digest


def remember(path: Path, digest: str) -> None:
    """The caller knows the sha256 of the file, so it need not be read for it."""
    real = path.resolve()
    _write_remembered(_read_remembered() | {str(real): [*_identity(real), digest]})


def _without_cosmetic(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without_cosmetic(v) for k, v in value.items() if k not in _COSMETIC}
    return value


def _identity(path: Path) -> list[int]:
    # The change time is set by the system alone: a tool that restores mtime still moves it.
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 22):
            digest.update(chunk)
    return digest.hexdigest()


def _remembered_path() -> Path:
    return models_dir() / "digests.json"


def _read_remembered() -> dict[str, Any]:
    try:
        content = json.loads(_remembered_path().read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _write_remembered(content: dict[str, Any]) -> None:
    """Losing an update to another process, or the whole file, only costs hashing again."""
    alive = {path: entry for path, entry in content.items() if os.path.exists(path)}
    target = _remembered_path()
    with contextlib.suppress(OSError):
        target.parent.mkdir(parents=True, exist_ok=True)
        with _unfinished_in(target.parent) as file:
            json.dump(alive, file)
            file.flush()
            os.replace(file.name, target)


@contextlib.contextmanager
def _unfinished_in(folder: Path) -> Iterator[IO[str]]:
    """A file that is gone afterwards unless it was renamed."""
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
        try:
            yield file
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file.name)
