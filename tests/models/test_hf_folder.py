"""A tiny model folder goes through the loader to paged KV."""

from pathlib import Path

import pytest
import tiny
import torch
from paged_run import Feed, PagedRun, full_logits

from kvtool.models.load import load_model


@pytest.mark.report("S80")
def test_prompts_of_different_length_need_no_pad_token(tmp_path: Path) -> None:
    loaded = load_model(str(tiny.folder(tmp_path)), device="cpu", dtype="float32")
    assert loaded.eos_ids == {2}
    prompts = [loaded.tokenizer.encode(text) for text in ("abc", "seventeen letters")]
    assert [len(prompt) for prompt in prompts] == [3, 17]
    assert loaded.tokenizer.decode(prompts[1]) == "seventeen letters"
    run = PagedRun(loaded.model)
    feeds = [Feed(prompt, run.table(17), 0, len(prompt)) for prompt in prompts]
    for logits, prompt in zip(run.step(*feeds), prompts, strict=True):
        expected = full_logits(loaded.model, prompt)
        torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0)


def test_the_folder_has_a_chat_template(tmp_path: Path) -> None:
    tokenizer = load_model(str(tiny.folder(tmp_path)), device="cpu").tokenizer
    text = tokenizer.render([{"role": "user", "content": "hi"}])
    assert text == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.encode(text)[:2] == [1, tokenizer.encode("u")[0]]


def test_the_same_seed_writes_the_same_weights(tmp_path: Path) -> None:
    digests = [
        load_model(str(tiny.folder(tmp_path / name, seed=seed)), device="cpu").weights_digest
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    ]
    assert digests[0] == digests[1] != digests[2]
