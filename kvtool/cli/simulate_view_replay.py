"""What the engine did with the trace, and how that compares with what the log says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from kvtool.cli.inspect_text import count
from kvtool.cli.printable import printable
from kvtool.cli.simulate_drawing import bar, note, number, percent, seconds, section, table

SHOWN_REQUESTS = 12
SHOWN_DISAGREEING = 5

Row = Mapping[str, Any]


def replay_section(document: Row) -> RenderableType | None:
    replay = document["replay"]
    if replay is None:
        return None
    whole = replay["prompt_tokens"]
    rows: list[tuple[RenderableType, ...]] = []
    parts = (
        ("from the cache", replay["cached_tokens"], "green"),
        ("from another position", replay["shifted_tokens"], "green"),
        ("of moved text, again", replay["recomputed_tokens"], "yellow"),
        ("computed", replay["computed_tokens"], "red"),
    )
    for name, tokens, style in parts if document["input"]["kind"] != "lengths" else ():
        if tokens or name in ("from the cache", "computed"):
            share = tokens / whole if whole else None
            rows.append((name, f"{tokens:,}", percent(share), bar(share, style)))
    if not rows:
        rows = [("from the cache", "not known: lengths have no identity", "", "")]
    blocks = f"{count(replay['capacity_blocks'], 'block')} ({replay['capacity_reason']})"
    who = "on the model" if replay["engine"] == "model" else "in the engine, without a model"
    return section(
        f"Replay {who}: {replay['mode']}, {blocks}",
        table({"prompt tokens": "left", "": "right", "share": "right", " ": "left"}, rows),
        *(note(fact) for fact in _facts(replay)),
    )


def _facts(replay: Row) -> Iterator[str]:
    if again := replay["hit_tokens"] - replay["cached_tokens"]:
        yield (
            f"{again:,} of the computed tokens were found: the last one of a prompt that is cached "
            "completely is computed all the same"
        )
    yield (
        f"{count(replay['evicted_blocks'], 'block')} evicted, at most "
        f"{replay['peak_held_blocks']:,} held at once, {count(replay['preemptions'], 'preemption')}"
    )
    if replay["in_flight_tokens"]:
        yield f"{replay['in_flight_tokens']:,} tokens were being computed for another request"
    ttft, queue = replay["ttft_s"], replay["queue_s"]
    times = ", ".join(f"{name} {seconds(ttft[name])}" for name in ("mean", "p50", "p90", "p99"))
    clock = "measured" if replay["cost"] is None else _clock(replay["cost"])
    yield f"time to first token: {times} ({clock}); of it waiting: mean {seconds(queue['mean'])}"


def _clock(cost: Row) -> str:
    return (
        f"virtual clock, {cost['prefill_rate']:,.0f} prompt and {cost['decode_rate']:,.0f} reply "
        "tokens/s"
    )


def engine_section(document: Row) -> RenderableType | None:
    engine = document["engine"]
    if engine is None:
        return None
    verified = engine["quality"] is not None
    columns = {"request": "left", "prompt": "right", "cached": "right", "moved": "right"}
    columns |= {"computed": "right", "TTFT": "right"}
    columns |= {"KL": "right", "top-1": "right", "verdict": "left"} if verified else {}
    rows = (_engine_row(row, verified) for row in engine["requests"][:SHOWN_REQUESTS])
    lines: list[RenderableType] = [table(columns, rows)]
    if len(engine["requests"]) > SHOWN_REQUESTS:
        more = len(engine["requests"]) - SHOWN_REQUESTS
        lines.append(note(f"and {more:,} more (--format json, --requests)"))
    if verified:
        quality = engine["quality"]
        lines.append(
            note(
                f"{quality['requests']:,} replies verified: mean KL {quality['kl_mean']:.3g}, top-1 "
                f"agreement {quality['top1_agreement']:.3g}, largest logit difference "
                f"{quality['max_abs_logit_diff']:.3g}"
            )
        )
    return section(f"Measured on {printable(str(engine['model']))}", *lines)


def _engine_row(row: Row, verified: bool) -> Iterator[str]:
    yield printable(row["id"])
    for name in ("prompt", "cached", "shifted", "computed"):
        yield f"{row[f'{name}_tokens']:,}"
    yield f"{row['ttft_ms']:,.1f} ms"
    if verified and row["verify"]:
        yield f"{row['verify']['kl_mean']:.2g}"
        yield f"{row['verify']['top1_agreement']:.3g}"
        yield row["verify"]["verdict"]


def calibration_section(document: Row) -> RenderableType | None:
    found = document["calibration"]
    if found is None:
        return None
    header = {"cache": "left", "token rate": "right", "error": "right"}
    header |= {"mean by request": "right", "": "left"}
    disagreeing = found["disagreeing"][:SHOWN_DISAGREEING]
    best = [one["name"] for one in found["candidates"] if one["best"]]
    more = found["num_disagreeing"] - len(disagreeing)
    return section(
        "Against the log",
        *(note(line) for line in _compared(found)),
        table(header, (_candidate(one, best) for one in found["candidates"])),
        *(note(_disagreement(one), 2, "") for one in disagreeing),
        *([note(f"and {more:,} more (--format json, --report)", 2)] if more else []),
    )


def _compared(found: Row) -> Iterator[str]:
    recorded, predicted = found["recorded"], found["predicted"]
    yield (
        f"{found['requests']:,} requests recorded {percent(recorded['rate'])} of their prompts as "
        f"cached, the replay has {percent(predicted['rate'])} of them; "
        f"{number(found['num_disagreeing'])} disagree by more than 5 pp"
    )
    if found["left_out"]:
        yield found["left_out"]


def _candidate(one: Row, best: Sequence[str]) -> Iterator[str]:
    yield one["name"]
    yield percent(one["rate"])
    yield f"{one['error_pp']:+.2f} pp"
    yield f"{one['mean_abs_error_pp']:.2f} pp"
    yield ("fits best" if len(best) == 1 else "fits equally well") if one["name"] in best else ""


def _disagreement(one: Row) -> str:
    return (
        f"{printable(one['id'])} ({printable(one['place'])}): recorded "
        f"{percent(one['recorded_rate'])}, predicted {percent(one['predicted_rate'])}: "
        f"{one['likely']}"
    )
