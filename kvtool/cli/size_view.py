"""The size report for people: a table with a bar per layer group, then what follows from it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from io import StringIO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kvtool.cli.sizes import format_size
from kvtool.sizing.report import GroupSize, SizeReport

BAR_WIDTH, PLAIN_WIDTH = 24, 110
Rows = Iterable[tuple[str, str]]


def render(report: SizeReport, *, per_layer: bool) -> str:
    """Text as it goes to stdout: with colour on a terminal, plain anywhere else."""
    parts: list[RenderableType] = [_headline(report), _groups(report)]
    if per_layer:
        parts.append(_layers(report))
    sections = (
        ("Allocated", _allocated(report)),
        ("Fits", _fits(report)),
        ("Decoding", _decoding(report)),
        ("Moving it", _moving(report)),
        ("With other attention", _variants(report)),
        ("Assumed", (("", text) for text in report.assumptions)),
    )
    parts += [part for title, rows in sections if (part := _section(title, list(rows)))]
    return _to_text(Group(*parts))


def _to_text(drawing: RenderableType) -> str:
    terminal = sys.stdout is not None and sys.stdout.isatty()
    buffer = StringIO()
    console = Console(
        file=buffer, force_terminal=terminal or None, width=None if terminal else PLAIN_WIDTH
    )
    console.print(drawing)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _headline(report: SizeReport) -> RenderableType:
    load = report.effective
    sequences = f"{load['batch']:,} sequence{'s' if load['batch'] != 1 else ''}"
    what = f"{report.model['name']}: {sequences} of {load['tokens']:,} tokens in {load['kv_dtype']}"
    size = f"{format_size(report.bytes)}  ({report.bytes:,} bytes)"
    return Group(Text(what), Text(size, style="bold"), Text(report.formula, style="dim"), Text())


def _groups(report: SizeReport) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("layers", "kind", "each keeps", "window"):
        table.add_column(name, justify="right" if name in ("layers", "window") else "left")
    for name in ("one more token", "bytes"):
        table.add_column(name, justify="right")
    table.add_column("")
    whole = sum(g.bytes for g in report.groups)
    for group in report.groups:
        table.add_row(
            str(group.layers),
            f"{group.kind} (draft)" if group.draft else group.kind,
            group.shape,
            f"{group.window:,}" if group.window else "-",
            format_size(group.bytes_per_token),
            format_size(group.bytes),
            _bar(group, whole),
        )
    return table


def _bar(group: GroupSize, whole: int) -> Text:
    share = group.bytes / whole if whole else 0.0
    return Text(f"{'█' * round(share * BAR_WIDTH):<{BAR_WIDTH}} {share:4.0%}", style="cyan")


def _layers(report: SizeReport) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in (
        "layer",
        "kind",
        "KV heads",
        "K dim",
        "V dim",
        "window",
        "one more token",
        "bytes",
    ):
        table.add_column(name, justify="left" if name == "kind" else "right")
    for row in report.per_layer:
        dims = (row.num_kv_heads, row.k_dim, row.v_dim)
        table.add_row(
            str(row.layer),
            f"{row.kind} (draft)" if row.draft else row.kind,
            *(str(n) if n else "-" for n in dims),
            f"{row.window:,}" if row.window else "-",
            format_size(row.bytes_per_token),
            format_size(row.bytes),
        )
    return Padding(table, (1, 0, 0, 0))


def _allocated(report: SizeReport) -> Rows:
    yield "one more token", f"{_exact(report.bytes_per_token)} a sequence"
    for name, size in (
        ("indexer keys", report.indexer_bytes),
        ("draft layers", report.mtp_bytes),
        ("recurrent state", report.state_bytes),
    ):
        if size:
            yield name, _exact(size)
    blocks = f"in blocks of {report.effective['block_size']}"
    yield blocks, _exact(report.allocated_bytes)
    if report.full_length_bytes != report.allocated_bytes:
        yield "windows at full length", _exact(report.full_length_bytes)
    yield (
        "contiguous reservation",
        f"{_exact(report.reserved_bytes)} for {report.effective['max_model_len']:,} tokens each",
    )
    rank = report.per_rank
    if rank.ranks > 1:
        yield f"fullest of {rank.ranks} GPUs", _exact(rank.allocated_bytes)
        yield "all GPUs together", _exact(rank.all_ranks_bytes)


def _fits(report: SizeReport) -> Rows:
    if report.memory is None:
        return
    yield "memory for KV", f"{_exact(report.memory['kv_bytes'] or 0)} on each GPU"
    if report.memory["total_bytes"]:
        yield (
            "",
            (
                f"{report.effective['utilization']:g} of "
                f"{format_size(report.memory['total_bytes'])}, less "
                f"{format_size(report.memory['weight_bytes'] or 0)} weights and "
                f"{format_size(report.memory['overhead_bytes'] or 0)} overhead"
            ),
        )
    batch, tokens = report.effective["batch"], report.effective["tokens"]
    yield "longest context", f"{_or_any(report.max_tokens)} tokens, {batch:,} at a time"
    yield "most sequences", f"{_or_any(report.max_concurrency)} of {tokens:,} tokens"
    for line in report.vllm_lines:
        yield "vLLM says", line
    if report.vllm_formula:
        yield "", report.vllm_formula


def _decoding(report: SizeReport) -> Rows:
    yield "KV read in a step", _exact(report.decode_read_bytes)
    square = " (grows with the square)" if report.bytes_per_token else ""
    yield "KV read in all steps", f"{_exact(report.cumulative_read_bytes)}{square}"
    if report.arithmetic_intensity is not None:
        bound = {True: "memory-bound", False: "compute-bound", None: "depends on the GPU"}
        where = "" if report.ridge_point else " on every GPU of the table"
        where = where if report.bandwidth_bound is not None else ""
        ridge = f" (ridge point {report.ridge_point:.0f})" if report.ridge_point else ""
        yield (
            "arithmetic intensity",
            (
                f"{report.arithmetic_intensity:.2f} FLOP/byte{ridge}: "
                f"attention is {bound[report.bandwidth_bound]}{where}"
            ),
        )
    if report.decode_floor_ms is not None:
        yield "a step takes at least", f"{_duration(report.decode_floor_ms)} for its KV"


def _moving(report: SizeReport) -> Rows:
    for link, ms in report.transfer_ms.items():
        rate = report.effective["link_bandwidth"][link]
        yield link, f"{_duration(ms)} at {rate / 1e9:g} GB/s"


def _variants(report: SizeReport) -> Rows:
    for name, size in report.variants.items():
        ratio = size / report.bytes if report.bytes else 1.0
        yield name.upper(), f"{_exact(size)}, {ratio:.3g} x this model"


def _section(title: str, rows: list[tuple[str, str]]) -> RenderableType | None:
    if not rows:
        return None
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for label, value in rows:
        table.add_row(Text(f"  {label}" if label else "", style="dim"), Text(value))
    return Padding(Group(Text(title, style="bold"), table), (1, 0, 0, 0))


def _exact(num_bytes: int) -> str:
    return f"{format_size(num_bytes)} ({num_bytes:,} B)"


def _or_any(number: int | None) -> str:
    return "any number of" if number is None else f"{number:,}"


def _duration(ms: float) -> str:
    if ms < 999.5:
        return f"{ms:.3g} ms"
    seconds = ms / 1000
    return f"{seconds:.3g} s" if seconds < 999.5 else f"{seconds:,.0f} s"
