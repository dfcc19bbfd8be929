"""The prose of docs/cli.md; `docs` adds what the program knows."""

from __future__ import annotations

HEAD = """\
# Command line

This page is made from the program: `python -m kvtool.cli.docs > docs/cli.md`.

## Rules for every command

- Results go to stdout, everything else (progress, warnings, statistics, errors) to stderr. Off a
  terminal, and with `NO_COLOR` or `TERM=dumb`, there is no colour, spinner or escape code.
- `--format json` writes one document on stdout and nothing else; after an error it is
  `{"error": {"type", "message", "hint", "exit_code"}}`.
- An error is one line `error: …` on stderr and mostly one `hint: …` with what to try next.
  `KVTOOL_DEBUG=1` adds the traceback of an internal error.
- Ctrl-C ends within a second; text that was shown stays. When the reader of stdout goes away
  (`kvtool … | head`), kvtool ends quietly with exit code 0.
- JSON that is read must be strict: no `NaN`, no number beyond a float's range, at most 100 lists and
  objects inside each other.
- `-` in place of a file is stdin.
- Text is UTF-8. Of stdin and of each `--file`, a BOM at the start and exactly one newline at the
  end are dropped; everything else is kept, because it changes the tokens and with them what the
  cache can find. `echo hi | kvtool generate -` is `kvtool generate hi`.
"""

DTYPES_AND_SIZES = """\
Sizes are a number and a unit, in any case: {binary} are powers of two, {decimal} powers of ten; a
plain number is bytes. Dtypes have short names: {aliases}. Whole numbers are digits only: `1.0` and
`1_0` are refused.
"""

SCHEDULER = """\
## The scheduler

Running requests go first, one token each; then waiting prompts, in chunks, while the budget of
the step lasts. Of the waiting requests the one with the longest cached prefix is admitted first;
`max_overtakes` bounds how often later arrivals may pass an earlier one. When blocks run out, the
request admitted last gives its blocks back and is computed again later.
"""

JSON_DOCUMENT = """\
## The JSON document of `generate`

`text`, `token_ids` (EOS included), `finish_reason` (`eos`, `stop`, `length`), `usage`
(`prompt_tokens` = `cached_tokens` + `shifted_tokens` + `recomputed_tokens` + `computed_tokens`;
`completion_tokens`), `timing` (`ttft_ms`, `tpot_ms`, `total_ms`), `cache` (counters of the run;
rates come with numerator, denominator and definition), `effective` (the value of every engine
option in this run, and `max_tokens`: without the option 256, or what the context leaves), and where asked for `verify` (`max_abs_logit_diff`, `kl_mean`,
`top1_agreement`, `tolerance`, `verdict`) and `logprobs`.
"""

CONVERSATIONS = """\
## Conversations

`--messages chat.json` is a list of OpenAI-style messages, or an object with such a list under
`messages`; PROMPT and files, if given, are one more user message. `--append` writes that message
and the reply back, all or nothing; with a PROMPT the list may be empty and the file be new. The reply carries the token ids of the conversation up to its
end; the next turn continues on them and tokenises only what is new, so that the cache finds all of
the previous turn. After an edit, or with another tokenizer or template, the text is tokenised anew
and a warning says so. Without a chat template, and with `--raw`, the contents are joined by blank
lines.
"""

BATCH = """\
## Batch files

One request a line, one result line each in the same order, all computed together. A request has
{content}, or a `body` with them (OpenAI Batch format); `prompt` is text or a list of token ids.
Other fields: {fields}; they stand before the options of the command line. {ignored} and the
envelope of the Batch format are ignored, unknown fields are refused. `custom_id` is handed back and
may repeat. Line k samples with `--seed` + k - 1. A bad line gives
`{{"line": N, "custom_id": …, "error": {{…}}}}`; the rest goes on, and the exit code is 5.
`--verify` keeps the logits of every reply until all are done (4 bytes for each token and each entry
of the vocabulary: 50 MB for 256 tokens of 49,152 entries); divide a large file.
"""
