"""Two questions about one text: the second starts from the KV of the first.

    python examples/quickstart.py

The demo model reads a page, answers a question about it, then another. Both prompts begin with
the same text, so the second prompt is computed from the first differing token on; everything
before comes from the cache.
"""

from pathlib import Path

from kvtool.config import EngineConfig
from kvtool.engine.output import TextOutput
from kvtool.engine.request import Request
from kvtool.engine.sampling import SamplingParams
from kvtool.engine.stream import stream
from kvtool.runtime import Runtime

TEXT = (Path(__file__).parent / "rivers.md").read_text()
QUESTIONS = ("Which river is the longest in Europe?", "How long is the Volga?")


def ask(runtime: Runtime, question: str) -> Request:
    messages = [{"role": "user", "content": f"{TEXT}\n\n{question}"}]
    sampling = SamplingParams(max_tokens=24, stop_ids=runtime.eos_ids)
    ids = runtime.tokenizer.encode_chat(messages)
    answer = TextOutput(
        Request(ids, sampling, namespace=runtime.namespace(None)), runtime.tokenizer
    )
    print(f"\n> {question}")
    for delta in stream(runtime.engine, [answer]):
        print(delta.text, end="", flush=True)
    return answer.request


def main() -> None:
    runtime = Runtime.open(EngineConfig(no_cache_dir=True))
    for question in QUESTIONS:
        request = ask(runtime, question)
        usage = request.usage
        print(
            f"\n  {usage.cached_tokens} of {usage.prompt_tokens} prompt tokens from the cache, "
            f"{usage.computed_tokens} computed; first token after {request.timing.ttft_ms:.0f} ms"
        )
    runtime.close()


if __name__ == "__main__":
    main()
