"""Whether replies are cached: as asked for in accounting, always on a model that runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Run
from simulation.example_document import TRACES

TRACE = TRACES / "append.jsonl"


@pytest.mark.parametrize(
    ("options", "caches"),
    [
        ((), False),
        (("--no-output-kv",), False),
        (("--output-kv",), True),
        (("--model",), True),
        (("--model", "--output-kv"), True),
        (("--model", "--calibrate"), False),
        (("--model", "--calibrate", "--output-kv"), True),
        (("--model", "--calibrate", "--no-output-kv"), False),
    ],
)
def test_the_effective_setting_is_what_ran(
    kvtool: Run, tiny: Path, tmp_path: Path, options: tuple[str, ...], caches: bool
) -> None:
    path = tmp_path / "short.jsonl"
    path.write_text('{"messages": [{"role": "user", "content": "hi"}], "model": "m"}\n')
    model = ["--model", str(tiny)] if "--model" in options else []
    given = [option for option in options if option != "--model"]
    found = kvtool("simulate-agent", "--no-advice", path, *model, *given, "--format", "json").json
    assert found["effective"]["output_kv"] is found["replay"]["output_kv"] is caches


def test_a_model_cannot_be_told_to_forget_its_replies(kvtool: Run, tiny: Path) -> None:
    refused = kvtool("simulate-agent", TRACE, "--model", tiny, "--no-output-kv")
    assert refused.code == 2 and "Drop --no-output-kv, or --model" in refused.err
