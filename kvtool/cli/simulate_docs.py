"""The prose about `simulate-agent` in docs/cli.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kvtool.advice.kinds import REWRITINGS, SETTINGS
from kvtool.analysis.causes import CAUSES
from kvtool.analysis.hit_rates import DEFINITIONS, REPORTED_BY
from kvtool.analysis.policies.policy import POLICIES
from kvtool.analysis.scheme import SCHEMES, Scheme
from kvtool.names import lookup
from kvtool.traces.formats import FORMATS

_SIMULATE_AGENT = """\
## What `simulate-agent` tells

It reads a log of requests and serves it again, in the order of the log or by its clock, through the
scheduler and the cache that `generate` has. Without `--model` nothing is computed (no weights, no
torch): a virtual clock with `--prefill-rate` and `--decode-rate` stands for the model. With `--model`
the engine computes each request and makes the recorded replies its own; with `--calibrate` the model
only lends its tokenizer and its rates. Replies are cached on a model (`--no-output-kv` is refused there),
without one only with `--output-kv`. A replay on a model starts cold and keeps nothing unless
`--cache-dir` or another option of the disk is given, or `--remote`.

Formats ({formats}) are told by the first records; several files, or a folder of them, are one trace.
A record that is no request ends the run with `file:line: reason` and exit code 5; `--lenient` skips and
counts it. Hash ids are replayed in their own blocks; text is cut into blocks of `--block-size`
tokens. A log of lengths says nothing about sharing: it answers questions of load, and the document
says `unanswered` to the rest.

How large the cache is: `--kv-blocks` or `--kv-memory`, else the first `--capacity`, else so large that
nothing is evicted: what misses then misses in any cache. (A model's engine has its own default.) A
request that does not fit ends the replay, not the analysis; the exit code is 4. The curve has the
capacities asked for, else those that LRU needs for 90, 95, 99 and 100 % of what can hit. Capacities in
bytes need `--kv-bytes-per-token` (`size-calc` has it) or a model.

The JSON document; a part without an answer is null or empty:

- `input`: `format` and `why` it was recognised, `files`, `requests`, `skipped` with `skipped_by_reason`
  and the first `skipped_places`, `block_size`, `tokenizer` with its `limits`, and `warnings`, which go to stderr too.
- `hit_rates` at unlimited capacity: `value`, `numerator`, `denominator`, `definition`, and whose own figure has the
  same formula (`reported_by`).
- `curve`: for each capacity and policy the rates `block` and `token` of unbroken prefixes, which is what an engine
  can use; `independent_block` and `independent_token` count a cached block wherever it is. Cold, one
  request after another, without replies. `lru_curve` at every capacity where it changes; `capacity_for`:
  blocks for a share of the ceiling. `stability`: LRU in the order of time, of the file, and with
  equal times reversed.
- `schemes` without a limit: `found_tokens` stand in an earlier prompt; of `net_tokens` what repair computes again
  is subtracted (`--repair`, `--min-run`); `moved_tokens` of them stood at another position; `extra_bytes` of index.
  `measurable` is false, with the `reason`, where ids are chained hashes.
- `memory`: what contiguous and paged layouts take, `concurrency` requests in a row at a time.
- `replay`: what the engine did: `hit_tokens` were found, `cached_tokens` used (the last token of a prompt is
  computed in any case); times of the virtual clock, or measured. `occupancy`: blocks held, cached, free.
- `misses`: `causes` are a partition of the missed tokens of the replay; see the table.
  `recoverable_by_shift_tokens` of them had been seen at another position in runs worth moving, as if nothing were
  evicted, repair subtracted: an estimate; the advice `shifted-reuse` is a replay. `over_time`, `top_requests`.
- `sessions`, those that computed most first; `prefix_tree`: the shared prefixes that save most.
- `explain`, of the request that `--explain` names: `spans` of its prompt, and the `first_difference` from the request
  it is compared with (the one before it of its session, where its context changed): token, message, field, and
  the text on both sides; `shares_most_with`: of all earlier ones.
- `advice`: changes that keep the meaning, each replayed at the same capacity, best first. `before` and `after` have
  the keys of `replay` with the same meaning, and `reused_tokens` (hit and shifted ones), their `reused_rate`, and
  `work_tokens` (computed and recomputed ones), of which `gain_tokens` are saved. `applied`: what `--apply` wrote.
- `calibration`: the log's own cached tokens against those of the replay and of other caches
  (`unlimited`, `ttl:300`, `ttl:3600`), as shares of the prompts; `best` are all that fit within half a point of
  the closest; `left_out`: what the rates say of text that the log does not hold, else null; `disagreeing`: requests
  more than 5 points off.
- `engine`, with `--model`: `requests` with usage, TTFT and, with `--verify`, what reuse changed; `quality` over all.
- `invariants`: what must be true of any trace; a false one is a bug of kvtool.
- `effective`: the value of each option, null where it means nothing; `outputs`: files written.

`--requests` writes a line for each request, in order: its tokens by source (`cached_tokens`,
`shifted_tokens`, `recomputed_tokens` and `computed_tokens` are the prompt), `causes`, times,
`capacity_blocks` (the LRU cache that would have had what was evicted).

| hit rate | is | same formula as |
| --- | --- | --- |
{rates}

| cause of a miss | means |
| --- | --- |
{causes}

Advice that rewrites prompts ({rewritings}; `--apply` writes them) moves no text across a tool call or
its result, and takes none away. The rest are settings ({settings}).

`--policies`: {policies}. `ttl:SECONDS` needs the time of every request, and `belady` looks into the
future: no policy has more hits of blocks.

| `--schemes` | finds |
| --- | --- |
{schemes}
"""


def _names(table: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in table)


def _rows(texts: Mapping[str, str]) -> str:
    return "\n".join(f"| `{name}` | {text} |" for name, text in texts.items())


def _definition(scheme: str) -> str:
    found: Scheme = lookup(SCHEMES, scheme, "scheme")
    return found.definition


SIMULATE_AGENT = _SIMULATE_AGENT.format(
    formats=_names(FORMATS),
    rates=_rows({k: f"{text} | {', '.join(REPORTED_BY[k])}" for k, text in DEFINITIONS.items()}),
    causes=_rows(CAUSES),
    rewritings=_names(REWRITINGS),
    settings=_names(SETTINGS),
    policies=_names(POLICIES),
    schemes=_rows({name: _definition(name) for name in SCHEMES}),
)
