# What a newcomer needs: `make demo` and `make test`, with nothing but Python 3.11 or newer and pip.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt

DEMO := demo
DEMO_BUDGET ?= 45s

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install demo test lint words format typecheck test-slow bench clean

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s%s\n", $$1, $$2 }' Makefile

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("tabapp needs Python 3.11 or newer, and $(PYTHON) is %d.%d; say PYTHON=…" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(INSTALL) --quiet -e '.[test,dev,web]'
	@touch $@

install: $(VENV)/.installed ## Install tabapp into .venv.

demo: $(VENV)/.installed ## Learn from a real table, show what was found, and predict rows that were kept apart.
	$(BIN)/python -m benchmarks.demo_data $(DEMO)
	$(BIN)/tabapp --auto $(DEMO)/breast_cancer.csv --target diagnosis --budget $(DEMO_BUDGET) \
		--runs-dir $(DEMO)/runs --out $(DEMO)/breast_cancer.tabapp
	$(BIN)/tabapp predict $(DEMO)/breast_cancer.tabapp $(DEMO)/new_patients.csv -o $(DEMO)/predictions.csv
	@head -n 4 $(DEMO)/predictions.csv
	$(BIN)/tabapp evaluate $(DEMO)/breast_cancer.tabapp $(DEMO)/new_patients.csv

test: $(VENV)/.installed-test lint typecheck ## Everything that a change must pass; under 15 minutes on two cores.
	$(BIN)/python -m pytest -n 2 -m "not slow and not gpu"

test-slow: $(VENV)/.installed-test ## The tests that take minutes, and those that need a GPU where there is one.
	$(BIN)/python -m pytest -m "slow or gpu"

lint: $(VENV)/.installed-test ## Style, format and import direction.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

words: $(VENV)/.installed-test ## Spelling and banned phrases, as a report.
	$(BIN)/codespell || true
	$(BIN)/python tools/check_words.py --report

format: $(VENV)/.installed-test ## Put the code in its standard format.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

typecheck: $(VENV)/.installed-test ## Static types, strict.
	$(BIN)/pyright --pythonpath $(BIN)/python

bench: $(VENV)/.installed ## The numbers of the README: start-up, then the tables (a quarter of an hour; needs TABAPP_DATA).
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.main_tables

clean: ## Remove what make has made.
	rm -rf $(VENV) $(DEMO) build dist *.egg-info .pytest_cache .ruff_cache .import_linter_cache .hypothesis
