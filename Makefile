# `make demo` and `make test` need nothing but Python 3.11 or newer and pip.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt

NUMERIC_TESTS ?= tests/nn tests/plugins tests/features tests/explain tests/ensemble tests/bundle tests/test_metrics.py

# Many tests wait for processes that they start, so that more of them than cores keep the cores busy.
TEST_PROCESSES ?= 4

DEMO := demo
DEMO_BUDGET ?= 45s

.DEFAULT_GOAL := help
# The tests start hundreds of processes, which would compile every module again.
unexport PYTHONDONTWRITEBYTECODE
.NOTPARALLEL:
.PHONY: help install demo test quick pictures lint format typecheck test-arithmetic test-slow fuzz torture test-minimum coverage docs dist bench bench-docs clean

help: ## Show all targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s%s\n", $$1, $$2 }' Makefile

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("tabapp needs Python 3.11 or newer, but $(PYTHON) is %d.%d. Choose another with PYTHON=…" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e .
	@touch $@

# One installation serves both: pip takes long to check what a second one would need.
$(VENV)/.installed-test: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --quiet -e '.[test,dev,docs,excel,foundation,onnx,serve,sign,web]'
	@touch $(VENV)/.installed $@

$(VENV)/.installed-fuzz: $(VENV)/.installed-test
	$(INSTALL) --quiet -e '.[fuzz]'
	@touch $@

install: $(VENV)/.installed ## Install tabapp into .venv.

demo: $(VENV)/.installed ## Train on a public table, show the results, and predict rows that were set aside.
	$(BIN)/python -m tools.demo_data $(DEMO)
	$(BIN)/tabapp --auto $(DEMO)/breast_cancer.csv --target diagnosis --budget $(DEMO_BUDGET) \
		--runs-dir $(DEMO)/runs --out $(DEMO)/breast_cancer.tabapp
	$(BIN)/tabapp predict $(DEMO)/breast_cancer.tabapp $(DEMO)/new_patients.csv -o $(DEMO)/predictions.csv
	@head -n 4 $(DEMO)/predictions.csv
	$(BIN)/tabapp evaluate $(DEMO)/breast_cancer.tabapp $(DEMO)/new_patients.csv

# pip would compile thousands of files that tests never import. What they do import, and the tests themselves, is compiled once,
# before the test processes start together.
test: INSTALL += --no-compile
test: $(VENV)/.installed-test ## Everything that a change must pass.
	@$(MAKE) --no-print-directory lint & lint=$$!; \
	$(MAKE) --no-print-directory typecheck & types=$$!; \
	$(BIN)/python -c "import tabapp.engine.fit.preload_torch, tabapp.engine.fit.preload_trees, tabapp.engine.fit.preload_boosters"; \
	$(BIN)/python -m pytest --collect-only -qq -m "not slow and not gpu" > /dev/null; \
	wait $$lint || { kill $$types; exit 1; }; \
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist worksteal -m "not slow and not gpu"; tests=$$?; \
	wait $$types && exit $$tests

quick: $(VENV)/.installed-test ## Lint, types, and the fast tests of what changed (SINCE=COMMIT), in about a minute.
	@$(MAKE) --no-print-directory lint & lint=$$!; \
	$(MAKE) --no-print-directory typecheck & types=$$!; \
	$(BIN)/python tools/quick.py $(if $(SINCE),--since $(SINCE)); tests=$$?; \
	wait $$lint && wait $$types && exit $$tests

test-arithmetic: $(VENV)/.installed-test ## Numeric tests under four instruction sets, as on other processors.
	set -e; for settings in \
		"" \
		"ONEDNN_MAX_CPU_ISA=SSE41 MKL_ENABLE_INSTRUCTIONS=SSE4_2 ATEN_CPU_CAPABILITY=default" \
		"ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 ATEN_CPU_CAPABILITY=avx2" \
		"ONEDNN_MAX_CPU_ISA=AVX512_CORE ATEN_CPU_CAPABILITY=avx512"; \
	do \
		echo "Settings: $${settings:-the default of this machine}"; \
		env $$settings $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not gpu" $(NUMERIC_TESTS); \
	done

test-slow: $(VENV)/.installed-fuzz ## Tests that take minutes, and GPU tests.
	$(BIN)/python -m pytest -m "slow or gpu"

fuzz: $(VENV)/.installed-fuzz ## Damaged and malicious files of every kind, the long form.
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow tests/hostile

torture: $(VENV)/.installed-test ## Killed, suspended, copied and starved runs, the long form; three hours.
	TABAPP_TORTURE_RUNS=60 TABAPP_TORTURE_STOP=60 TABAPP_TORTURE_SIZES=100,300,600,1200,1800,2500,4000 TABAPP_TORTURE_SOAK=7200 \
		$(BIN)/python -m pytest -m slow tests/torture

test-minimum: ## Tests with the oldest supported versions of the libraries, in an environment of their own.
	$(PYTHON) -m venv .venv-minimum
	.venv-minimum/bin/python -m pip install --disable-pip-version-check --quiet -c constraints-minimum.txt -e '.[test,serve,sign,web]'
	.venv-minimum/bin/python -m pytest -n 2 --dist worksteal -m "not slow and not gpu" $(TESTS)

coverage: $(VENV)/.installed-test ## Tests with branch coverage, subprocesses included; a report in build/coverage.
	rm -f .coverage .coverage.*
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not gpu" --cov --cov-report= $(TESTS)
	$(BIN)/python -m coverage html --quiet
	$(BIN)/python -m coverage report --skip-covered

docs: $(VENV)/.installed-test ## The documentation site, in build/docs; warnings are errors.
	$(BIN)/python -m sphinx -E -a -W --keep-going -q -b html docs build/docs
	@echo "Open build/docs/index.html"

dist: $(VENV)/.installed-test ## Build a wheel and an sdist, install them by pip, pipx and uv, and test each.
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python tools/check_distribution.py dist

pictures: $(VENV)/.installed-test ## Draw all screenshots and record a terminal, from fresh runs; PNGs need `pip install resvg`.
	$(BIN)/python tools/screenshots.py
	$(BIN)/python tools/record_terminal.py

lint: $(VENV)/.installed-test ## Style, format, import contracts, spelling and banned phrases.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell
	$(BIN)/python tools/check_words.py

format: $(VENV)/.installed-test ## Format the code.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

typecheck: $(VENV)/.installed-test ## Static types, strict.
	$(BIN)/pyright --pythonpath $(BIN)/python

bench: $(VENV)/.installed ## The numbers of the README: start-up, then the tables (15 minutes; needs TABAPP_DATA).
	$(BIN)/python -m benchmarks.performance.startup
	$(BIN)/python -m benchmarks.product.main_tables

bench-docs: $(VENV)/.installed ## Tables of README and docs from benchmarks/results.
	$(BIN)/python -m benchmarks.document

clean: ## Remove everything that make created.
	rm -rf $(VENV) .venv-minimum $(DEMO) build dist docs/generated .coverage* *.egg-info .pytest_cache .ruff_cache .import_linter_cache .hypothesis
