# Every target makes its own .venv and needs python3 (3.11 or newer), pip, git and make only.
PYTHON ?= python3
SEEDS ?= 2 3 4 5 6
DEMO_ARGS ?=
FUZZ_SECONDS ?= 10
REPRODUCE_ARGS ?= all
BENCH_ARGS ?=
SUITES := tables decode planes clients server
BENCHMARKS := stream peers collector page spark

VENV := .venv
BIN := $(VENV)/bin
# The project is installed in place, so that only these files ask for a new installation.
SOURCES := pyproject.toml baselines/pyproject.toml collector/pyproject.toml setup.py constraints.txt $(wildcard src/faintly/kernels/*.[ch])
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt

# Tests start many processes: each loads compiled modules, even where the environment would keep none.
unexport PYTHONDONTWRITEBYTECODE

# Workers share the cores: threads of BLAS would only wait for one another.
test test-long test-numpy stat: export OPENBLAS_NUM_THREADS = 1

# Where the integers of kernels show; unit/kernels itself tests both languages in `make test`.
NUMPY_TESTS := tests/conformance/test_registered.py tests/vectors/test_vectors.py \
	tests/unit/kernels/test_native.py \
	$(addprefix tests/property/test_,hashing.py merges.py randomize.py reports.py) \
	$(addprefix tests/unit/,baselines engine mechanisms spark)

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-long test-numpy sanitize fuzz check js image stat vectors docs cli-reference reproduce bench peers clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' Makefile

demo: $(VENV)/demo.stamp ## the whole flow on the sample that ships with the repository
	@$(BIN)/faintly demo $(DEMO_ARGS)

test: $(VENV)/dev.stamp ## the tests that fit into minutes: every module, one statistical seed
	@scripts/install_js.sh node || echo "no Node: the tests of the JavaScript client are left out, and listed"
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not long"

test-all: test-long test-numpy sanitize fuzz ## what `make test` leaves out: long tests, numpy, sanitizers, fuzzing

test-long: $(VENV)/spark.stamp ## the long tests: enumeration, large samples, crashes, speed, properties at length
	@scripts/install_js.sh || echo "no Node or Chromium: the tests that need them are left out, and listed"
	$(BIN)/python -m pytest -n auto --dist loadgroup -m "long or hypothesis" --hypothesis-profile=full

# The kernels give the same integers, which these tests show; samples of the same law,
# enumerations and processes around the same numbers would show nothing more.
test-numpy: $(VENV)/dev.stamp ## without the C kernels: the quick tests of what is computed with them
	FAINTLY_KERNEL=numpy $(BIN)/python -m pytest -n auto -m "not long" $(NUMPY_TESTS)

sanitize: $(VENV)/dev.stamp ## the kernels under sanitizers and for each instruction set; needs gcc
	PYTHON=$(CURDIR)/$(BIN)/python scripts/sanitize.sh --self-test

fuzz: $(VENV)/dev.stamp ## every decoder under a fuzzer: make fuzz FUZZ_SECONDS=600
	PYTHON=$(CURDIR)/$(BIN)/python scripts/fuzz.sh $(FUZZ_SECONDS)

check: $(VENV)/dev.stamp ## formatting, lint, types, layers and documentation
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/cli_reference.py --check
	$(BIN)/python scripts/bench_readme.py --check
	$(BIN)/python scripts/evaluation_docs.py --check
	$(BIN)/python scripts/accuracy_docs.py --check
	$(BIN)/python scripts/check_docs.py

js: ## rebuild the bundles of the JavaScript client and of the page; installs Node and what it needs
	scripts/install_js.sh
	cd clients/js && PATH="$(CURDIR)/$(BIN):$$PATH" npm run --silent build
	cd page && PATH="$(CURDIR)/$(BIN):$$PATH" npm run --silent build

image: $(VENV)/dev.stamp ## build the container image and start it; without docker, its steps in a Debian tree
	$(BIN)/python scripts/container.py

stat: $(VENV)/dev.stamp ## the statistical tests under other seeds: make stat SEEDS="7 8 9"
	@for seed in $(SEEDS); do \
		echo "seed $$seed"; \
		$(BIN)/python -m pytest -n auto -m statistical --seed $$seed || exit 1; \
	done

vectors: $(VENV)/dev.stamp ## regenerate spec/vectors; git diff must then be empty
	$(BIN)/python -m spec.generator

docs: $(VENV)/dev.stamp ## build the documentation into site/, warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "docs: open site/index.html"

cli-reference: $(VENV)/dev.stamp ## regenerate docs/reference/cli.md from the command line itself
	$(BIN)/python scripts/cli_reference.py

reproduce: $(VENV)/demo.stamp ## every experiment of the evaluation: make reproduce REPRODUCE_ARGS="all --quick"
	@$(BIN)/python -m evaluation $(REPRODUCE_ARGS)

# With arguments it prints the ratios that they ask for, and changes no file.
ifeq ($(BENCH_ARGS),)
bench: $(VENV)/spark.stamp peers
	@for name in $(SUITES); do \
		$(BIN)/python -m benchmarks --suite $$name --json benchmarks/results/$$name.json || exit 1; \
	done
	@for name in $(BENCHMARKS); do \
		$(BIN)/python -m benchmarks.$$name --json benchmarks/results/$$name.json || exit 1; \
	done
	@$(BIN)/python -m benchmarks.scaling --json benchmarks/results/scaling.json \
		--plot docs/explanation/cost.svg
	@$(BIN)/python -m benchmarks.spark --plot docs/explanation/scale.svg
	@$(BIN)/python scripts/bench_readme.py
else
bench: $(VENV)/dev.stamp ## every benchmark and peer, for the tables of the pages; or make bench BENCH_ARGS=--quick
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)
endif

peers: .venv-peers/peers.stamp ## the environment of the libraries that we compare with

clean: ## remove the environment and everything built
	rm -rf $(VENV) .venv-peers build dist site src/faintly.egg-info faintly-demo
	rm -rf baselines/faintly_baselines.egg-info collector/faintly_collector.egg-info
	rm -rf clients/js/node_modules page/node_modules
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	rm -f src/faintly/kernels/_kernels*
	find src baselines collector tests scripts benchmarks evaluation spec -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "faintly needs Python 3.11 or newer; try: make PYTHON=python3.12"; exit 1; }
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# Python compiles what is imported when it is imported; compiling every package would take longer.
$(VENV)/demo.stamp: $(SOURCES) | $(BIN)/python
	@echo "installing faintly with the extra eval into $(VENV)"
	@$(PIP) --no-compile -e '.[eval]' -e ./baselines
	@touch $@

$(VENV)/dev.stamp: $(SOURCES) | $(BIN)/python
	@echo "installing faintly with the extras eval and dev, and the collector, into $(VENV)"
	@$(PIP) --no-compile -e '.[eval,dev]' -e ./collector -e ./baselines
	@touch $@ $(VENV)/demo.stamp

# PySpark is larger than everything else together, and only the long tests need it.
$(VENV)/spark.stamp: $(VENV)/dev.stamp
	@echo "installing PySpark into $(VENV)"
	@$(PIP) --no-compile -e '.[spark,lake]'
	@touch $@

.venv-peers/peers.stamp: scripts/peers.sh benchmarks/peers-constraints.txt
	@PYTHON="$(PYTHON)" scripts/peers.sh
	@touch $@
