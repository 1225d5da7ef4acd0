# Every target sets itself up: an environment in .venv, installed with the tested versions.
# A second run finds the stamp and starts at once, with no network.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS ?= dev,fast,report,torch,federated
STAMP := $(VENV)/.installed-$(shell cat pyproject.toml constraints.txt Makefile | cksum | cut -d' ' -f1)
WORKERS ?= 2

.PHONY: demo test faults check fix bench docs clean setup

setup: $(STAMP)

$(STAMP):
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	rm -f $(VENV)/.installed-*
	touch $@

demo: $(STAMP)  ## the main job on the bundled digits
	$(BIN)/tacit demo

test: check  ## format, lint, types, import contracts and all tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)  # one thread a worker: more only get in their way

faults: $(STAMP)  ## every fault at every step on real processes; takes a while
	TACIT_FAULTS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/faults

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

fix: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)  ## the long measurements, one script each
	for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

docs: $(STAMP)
	$(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

clean:
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .hypothesis .pytest_cache
