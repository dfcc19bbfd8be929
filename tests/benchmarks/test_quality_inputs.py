"""The committed prompts and the situations built from them."""

from itertools import pairwise

import pytest
import tiny
from tokenizers.processors import TemplateProcessing

from benchmarks.quality.arms import ARMS, choose_arms
from benchmarks.quality.case import Case
from benchmarks.quality.frame import Frame
from benchmarks.quality.prompts import PATH, load_prompts
from benchmarks.quality.situations import ANSWER_TOKENS, SITUATIONS, build
from kvtool.errors import ConfigError
from kvtool.models.tokenizer import Tokenizer

PROMPTS = load_prompts()
TOKENIZER = Tokenizer(tiny.tokenizer(), "digest")


def squeezed(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(params=SITUATIONS)
def case(request: pytest.FixtureRequest) -> Case:
    return build(PROMPTS, 3, request.param, Frame(TOKENIZER))


def test_there_are_enough_prompts_of_two_sources() -> None:
    assert len(PROMPTS) >= 32
    assert len({prompt.id for prompt in PROMPTS}) == len({p.text for p in PROMPTS}) == len(PROMPTS)
    sources = [prompt.source.split()[0] for prompt in PROMPTS]
    assert sources == ["pydoc", "Jargon"] * (len(PROMPTS) // 2)
    licences = PATH.with_name("LICENSES.md").read_text()
    assert "`pydoc topic NAME`" in licences
    assert "`Jargon File, PART`" in licences


@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda prompt: prompt.id)
def test_answers_are_how_the_text_goes_on(prompt) -> None:  # type: ignore[no-untyped-def]
    text, answer = squeezed(prompt.text), squeezed(prompt.answer)
    if "from these words on" in prompt.question:
        quote = prompt.question.partition("from these words on: ")[2]
        assert f"{quote} {answer}" in text
    else:
        quote = prompt.question.partition("these words: ")[2].partition("\n")[0]
        assert text.endswith(quote)
        assert answer not in text
    assert len(TOKENIZER.encode(prompt.answer)) >= ANSWER_TOKENS


def test_a_case_holds_the_text_in_four_contexts_of_three_kinds(case: Case) -> None:
    assert sorted(earlier.kind for earlier in case.earlier) == [
        "own",
        "similar",
        "unlike",
        "unlike",
    ]
    assert len({tuple(earlier.context.tokens) for earlier in case.earlier}) == 4
    assert len(case.answer) == ANSWER_TOKENS
    assert case.num_reused >= len(TOKENIZER.encode(PROMPTS[3].text))
    left_out = len(case.target.tokens) - len(case.without.tokens)
    assert left_out >= len(TOKENIZER.encode(PROMPTS[3].text))
    assert build(PROMPTS, 3, case.situation, Frame(TOKENIZER)) == case


def test_the_text_stands_elsewhere_than_in_its_own_donor(case: Case) -> None:
    places, own = case.target.places(), case.own.places()
    deltas = {name: places[name][0] - own[name][0] for name in places}
    shift = {"truncated": -1, "reordered": 0}.get(case.situation, 1)
    if shift:
        assert all(delta * shift > 0 for delta in deltas.values())
    else:
        assert deltas["part 1"] > 0 > deltas["part 3"]
    if case.situation in ("from-start", "user-prefix"):
        assert {start for start, _ in own.values()} == {0}


def test_no_two_parts_keep_their_order() -> None:
    case = build(PROMPTS, 0, "reordered", Frame(TOKENIZER))
    now = list(case.target.places())
    for earlier in case.earlier:
        before = list(earlier.context.places())
        assert not set(pairwise(now)) & set(pairwise(before))


def test_cases_of_one_prompt_have_other_documents_in_front() -> None:
    fronts = [
        tuple(case.target.tokens[:start])
        for name in SITUATIONS
        for case in [build(PROMPTS, 0, name, Frame(TOKENIZER))]
        for start, _ in [next(iter(case.target.places().values()))]
        if name not in ("reordered", "truncated")  # the bare instructions
    ]
    assert len(set(fronts)) == len(fronts)


def test_bos_comes_once_and_stays_in_front() -> None:
    backend = tiny.tokenizer.__wrapped__()  # not the cached one
    backend.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", 1)]
    )
    frame = Frame(Tokenizer(backend, "digest"))
    assert frame.bos == (1,)
    case = build(PROMPTS, 0, "user-prefix", frame)
    for context in (case.target, case.without, case.own, *(e.context for e in case.earlier)):
        assert context.tokens[0] == 1
    assert case.own.places()["instructions and text"][0] == 1


def test_arms_are_chosen_by_pattern() -> None:
    assert [arm.name for arm in choose_arms(["first:??", "none"])] == [
        *("none", "first:16", "first:32", "first:64")
    ]
    assert choose_arms(["*"]) == list(ARMS.values())
    combined = ARMS["first:16+attn:0.1"]
    assert (combined.leading, combined.select, combined.share) == ("first:16", "attn", 0.1)
    assert (ARMS["vdev16:0.15"].select, ARMS["vdev16:0.15"].granule) == ("vdev", 16)
    with pytest.raises(ConfigError, match="last:16: no such arm"):
        choose_arms(["none", "last:16"])
