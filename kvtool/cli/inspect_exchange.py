"""`--export` and `--import`: KV to and from the file that Hugging Face caches are made from."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from kvtool.cli import output
from kvtool.cli.inspect_consent import ask
from kvtool.cli.inspect_model import identity_of
from kvtool.cli.inspect_request import InspectRequest
from kvtool.cli.inspect_text import count, short_key
from kvtool.cli.printable import printable
from kvtool.cli.sizes import format_size
from kvtool.config import EngineConfig
from kvtool.errors import CacheError, ConfigError, InputError
from kvtool.models.hf_cache import export_prefix
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.entry import Entry


def export_run(catalog: Catalog, request: InspectRequest, engine: EngineConfig) -> None:
    """Write the sequence that ends with --key, or the only one there is."""
    assert request.export is not None
    entry = _only_end(catalog) if request.key is None else catalog.find(request.key)
    report = export_prefix(catalog, entry, Path(request.export))
    if request.format == "json":
        output.write_json({**report._asdict(), "path": str(report.path), "key": entry.key})
        return
    output.write(
        f"{printable(str(report.path))}: {count(report.num_tokens, 'token')} in "
        f"{count(report.num_layers, 'layer')}, {format_size(report.num_bytes)}\n"
    )


def _only_end(catalog: Catalog) -> Entry:
    """The run that ends the one sequence there is; raises `ConfigError` where there are more."""
    entries = catalog.entries()
    continued = {entry.parent for entry in entries}
    ends = [entry for entry in entries if not continued & set(entry.keys)]
    if not ends:
        raise CacheError("Nothing is stored.", hint="kvtool prefill FILE")
    if len(ends) > 1:
        raise ConfigError(
            f"{len(ends)} sequences are stored; --export writes one.",
            hint="Name its last run with --key; kvtool inspect-cache --tree shows them.",
        )
    return ends[0]


def import_run(folder: Path, request: InspectRequest, engine: EngineConfig) -> None:
    """Store the KV of a file as the model's own; the folder is made where it is missing."""
    assert request.import_ is not None
    if not Path(request.import_).is_file():  # before the tokenizer is read, and a folder made
        raise InputError(f"{request.import_} is not a file.", hint="Name an exported file.")
    ask(request, f"store the KV of {request.import_!r}")
    identity = identity_of(engine)
    from kvtool.models.hf_import import import_prefix

    with closing(Catalog.open(folder, create=True)) as catalog:
        report = import_prefix(Path(request.import_), identity, catalog)
    for note in report.notes:
        output.warn(printable(note))
    if request.format == "json":
        output.write_json({"action": "import", **report._asdict()})
        return
    keys = ", ".join(short_key(key) for key in report.keys)
    output.write(f"Stored {count(report.num_tokens, 'token')}: {keys}\n")
