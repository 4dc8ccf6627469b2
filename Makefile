# Talk to Venus:   make demo        Everything here works on a machine that has only Python, git and make; the tests need Go too.

PYTHON ?= python3
BROWSER ?= yes
ARGS ?=
JOBS ?= 2
LOCK ?= local
BIN := .venv/bin
WITHOUT := $(if $(filter no,$(BROWSER)), and not browser,)

.PHONY: help demo test lint format dev bench lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## talk to Venus in the browser, without any network after the first time (LOCK=livekit for LiveKit rooms)
	@PYTHON="$(PYTHON)" requirements/venv.sh $(LOCK)
	@$(BIN)/venus models pull
	@$(BIN)/venus demo $(ARGS)

dev: ## only make .venv with everything for development
	@PYTHON="$(PYTHON)" requirements/venv.sh dev

test: dev ## every test; BROWSER=no leaves out those in Chromium, ARGS="..." goes to pytest
	@$(if $(filter no,$(BROWSER)),true,requirements/chromium.sh)
	@requirements/livekit-server.sh >/dev/null
	@$(BIN)/venus models pull
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --cov --cov-report= -m "not alone and not live$(WITHOUT)" $(ARGS) || [ $$? = 5 ]
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --cov --cov-append --cov-report= -m "live$(WITHOUT)" $(ARGS) || [ $$? = 5 ]
	@$(BIN)/python -m pytest --cov --cov-append --cov-report=term:skip-covered -m "alone$(WITHOUT)" $(ARGS) || [ $$? = 5 ] # 5: none of these was asked for

lint: dev ## style, format and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/basedpyright --warnings

format: dev ## mend style and format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: dev ## measure on this machine and write benchmarks/results.md; ARGS=--fresh adds a fresh clone, ARGS=--quick is short
	@requirements/chromium.sh
	@$(BIN)/venus models pull
	@$(BIN)/python benchmarks/run.py $(ARGS)

lock: dev ## make requirements/*.lock anew from pyproject.toml
	@requirements/lock.sh

clean: ## remove .venv and everything that was made here (not the models, which other checkouts share)
	rm -rf .venv build dist *.egg-info .coverage .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
