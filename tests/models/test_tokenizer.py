"""Text to ids and back: BOS once, surrogates replaced, foreign ids refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_files import byte_level, save_folder
from tokenizers import processors
from transformers import AutoTokenizer

from kvtool.errors import InputError, ModelError
from kvtool.models.tokenizer import check_token_ids, load_tokenizer

BOS, EOS = 1, 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_folder(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def tokenizer(folder):
    return load_tokenizer(folder)


@pytest.fixture(scope="module")
def with_bos(tmp_path_factory):
    """The tokenizer adds BOS, and the template writes it too."""
    backend = byte_level("{{ bos_token }}{% for m in messages %}{{ m['content'] }}{% endfor %}")
    backend.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", BOS)]
    )
    return load_tokenizer(save_folder(tmp_path_factory.mktemp("bos"), tokenizer=backend))


def test_ids_equal_the_reference(folder, tokenizer):
    reference = AutoTokenizer.from_pretrained(folder)
    for text in ("the quick\n\n fox 12", "", " ", "ünïcode ✓ 🙂", "a<|im_end|>b"):
        assert tokenizer.encode(text) == reference.encode(text)
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert (tokenizer.bos_id, tokenizer.eos_id) == (BOS, EOS)
    assert tokenizer.vocab_size == len(reference)


@given(st.text(max_size=40))
@settings(max_examples=200)
def test_any_text_survives(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_special_tokens_can_be_left_out(tokenizer):
    ids = tokenizer.encode("fox<|im_end|>")
    assert ids[-1] == EOS
    assert tokenizer.decode(ids, skip_special_tokens=True) == "fox"


def test_a_limit_in_the_file_does_not_cut_text(tmp_path):
    folder = save_folder(tmp_path)
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    content["truncation"] = {
        "direction": "Right",
        "max_length": 3,
        "strategy": "LongestFirst",
        "stride": 0,
    }
    path.write_text(json.dumps(content))
    assert len(load_tokenizer(folder).encode("fox " * 50)) > 50


@pytest.mark.report("S15")
def test_bos_comes_once(with_bos, caplog):
    messages = [{"role": "user", "content": "fox"}]
    chat = with_bos.encode_chat(messages)
    assert chat.count(BOS) == 1
    assert with_bos.encode("fox") == chat
    assert not caplog.records
    assert with_bos.encode(with_bos.render(messages)) == chat
    assert "begins with the BOS token" in caplog.text


@pytest.mark.report("S15")
def test_bos_on_purpose_inside_a_text_stays(with_bos):
    assert with_bos.encode("fox<|im_start|>").count(BOS) == 2
    assert with_bos.encode("<|im_start|>fox", add_special_tokens=False).count(BOS) == 1


@pytest.mark.report("S61")
@pytest.mark.parametrize("text", ["\ud83d", "a\udc9db", "\udc9d\ud83d"])
def test_lone_surrogates_become_replacement_characters(text, tokenizer, caplog):
    ids = tokenizer.encode(text)
    assert ids == tokenizer.encode("".join("\ufffd" if c > "\ud7ff" else c for c in text))
    assert "lone surrogate" in caplog.text
    chat = [{"role": "user", "content": text}]
    assert "\ufffd" in tokenizer.render(chat)
    assert tokenizer.encode_chat(chat)


@pytest.mark.report("S61")
def test_halves_of_a_character_are_joined(tokenizer):
    assert tokenizer.encode("\ud83d\ude42\ud83d") == tokenizer.encode("🙂\ufffd")


@pytest.mark.report("S63")
@pytest.mark.parametrize("bad", [-1, 320, 2**62, 1.0, True, None, "5"])
def test_ids_outside_the_vocabulary(bad):
    assert check_token_ids([0, 319], 320) == [0, 319]
    with pytest.raises(InputError) as caught:
        check_token_ids([5, 6, bad, -9], 320)
    assert caught.value.message == f"Token id at index 2 is {bad!r}; allowed: 0 to 319."


def test_missing_tokenizer(tmp_path):
    save_folder(tmp_path)
    for path in tmp_path.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(ModelError, match="its tokenizer cannot be loaded") as caught:
        load_tokenizer(tmp_path)
    assert "\n" not in caught.value.message


def test_damaged_tokenizer(tmp_path):
    (save_folder(tmp_path) / "tokenizer.json").write_text('{"version": "1.0"')
    with pytest.raises(ModelError, match="its tokenizer cannot be loaded"):
        load_tokenizer(tmp_path)
