# Start with `make demo`. Every target sets up what it needs, once, in .venv; nothing is installed outside it, but for
# Chromium and LaTeX where root runs the tests.
# ARGS reaches the command behind a target: make test ARGS="-k trace".

BIN := .venv/bin
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test setup setup-viewer lint format bench notebooks lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup ## a hybrid model on the real engine under both policies, then the dashboard (DEMO_EXIT=1: no dashboard)
	@$(BIN)/radixflow demo $(ARGS)

test: setup ## all tests
	@scripts/browser.sh
	@scripts/latex.sh
	@$(BIN)/python -m pytest -n auto $(ARGS)

setup: ## the environment alone: .venv/bin/radixflow works after it
	@scripts/setup.sh engine

setup-viewer: ## the viewer alone, without vLLM and torch: traces, figures, dashboard
	@scripts/setup.sh viewer

lint: setup ## ruff, pyright and the walls between the packages
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports --no-cache
	@PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright

format: setup ## what ruff can mend by itself
	@$(BIN)/ruff check --fix .

bench: setup ## benchmarks, as ratios measured side by side
	@for file in benchmarks/bench_*.py; do $(BIN)/python "$$file" $(ARGS) || exit 1; done

notebooks: setup ## execute the lessons and compare what they say with what is committed (ARGS="--write 04" keeps it)
	@$(BIN)/python notebooks/execute.py $(ARGS)

lock: ## compile requirements/*.txt from pyproject.toml (needs uv)
	@scripts/lock.sh $(ARGS)

clean: ## remove .venv
	rm -rf .venv
