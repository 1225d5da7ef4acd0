# Every target sets itself up: an environment in .venv, installed with the tested versions.
# A second run finds the stamp and starts at once, with no network.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS ?= dev,fast,report,ui,export,mlflow,torch,federated,tables,images,postgres,ray,services
STAMP := $(VENV)/.installed-$(shell cat pyproject.toml constraints.txt dev.lock Makefile | cksum | cut -d' ' -f1)
DEMO_STAMP := $(VENV)/.demo-$(shell cat pyproject.toml constraints.txt Makefile | cksum | cut -d' ' -f1)
# One more than cores: tests of processes and services often wait.
WORKERS ?= 3
# Nothing is compiled ahead: of 20,000 files a fifth is ever imported.
PIP := -m pip install --quiet --disable-pip-version-check --no-compile
# uv takes half a minute where pip takes three. It does not read pip's settings, so they are handed over: those of the environment last, for they win.
PIP_SETTINGS = $(BIN)/python -m pip config list | sort -r | sed -nE "s/^[^=]*\.index-url=/UV_DEFAULT_INDEX=/p; s/^[^=]*\.extra-index-url=/UV_INDEX=/p; \
  s/^[^=]*\.find-links=/UV_FIND_LINKS=/p; s/^[^=]*\.cert=/SSL_CERT_FILE=/p"
UV = set -a && eval "$$($(PIP_SETTINGS))" && UV_INDEX_STRATEGY=unsafe-best-match $(BIN)/uv pip install --quiet --python $(BIN)/python
# Bytecode is written whatever the environment says: tests start hundreds of processes, and each would compile all it imports.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test suite quick browser slow faults soak spark engines cover mutants check fix bench docs lock clean setup

setup: $(STAMP)

$(STAMP):
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	# What develops and tests it comes by hash, and the lock names all of it (--no-deps: nothing is resolved anew); extras such as torch differ from machine to machine, and come by version.
	# uv itself comes first, by pip and by hash; where it finds no way to the packages, pip goes on.
	sed -n '/^uv==/,/[^\\]$$/p' dev.lock > $(VENV)/uv.lock
	$(BIN)/python $(PIP) --no-deps --require-hashes -r $(VENV)/uv.lock
	@($(UV) --no-deps --require-hashes -r dev.lock) || $(BIN)/python $(PIP) --no-deps --require-hashes -r dev.lock
	@($(UV) -c constraints.txt -e '.[$(EXTRAS)]') || $(BIN)/python $(PIP) -c constraints.txt -e '.[$(EXTRAS)]'
	rm -f $(VENV)/.installed-* $(VENV)/.demo-*
	touch $@ $(DEMO_STAMP)

# The demo needs the core, pictures and the live view that it names: a tenth of what develops Tacit. An environment that has more is used as it is.
$(DEMO_STAMP):
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test -e $(STAMP) || $(BIN)/python $(PIP) -c constraints.txt -e '.[report,ui]'
	rm -f $(VENV)/.demo-*
	touch $@

demo: $(DEMO_STAMP)  ## the main job on the bundled digits
	$(BIN)/tacit demo

test: $(STAMP)  ## format, lint, types, import contracts and all tests
	$(MAKE) --no-print-directory --jobs 2 check suite  # side by side: types are checked on one core, and tests often wait

suite: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)  # one thread per worker: more only get in their way

quick: $(STAMP)  ## lint, and the tests and examples beside what changed since main; under a minute
	$(BIN)/ruff check --quiet .
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) $$($(BIN)/python -m tests.quick)

browser: $(STAMP)  ## the report and the live view in real Chromium, which is installed where that can be done
	command -v chromedriver >/dev/null || (command -v apt-get >/dev/null && test "$$(id -u)" = 0 && apt-get update -qq && \
	  apt-get install -y -qq chromium chromium-driver) || echo "no Chromium: apt-get install chromium chromium-driver"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -rs tests/report/test_page_browser.py tests/ui/test_service_browser.py

slow: $(STAMP)  ## every fault at every step on real processes; about an hour
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow tests

faults: spark  ## the same, and what make test has of it: servers, workers, tasks and connections that are lost
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -rs -m 'slow or fault' tests

soak: $(STAMP)  ## an hour of jobs under random faults on real processes (MINUTES=60); budgets right, nothing grows
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults.soak --minutes $(or $(MINUTES),60) --out docs/results

spark: $(STAMP)  ## Spark and Java 17 beside everything else (a large download)
	command -v java >/dev/null || test -x "$${JAVA_HOME:-none}/bin/java" || (command -v apt-get >/dev/null && test "$$(id -u)" = 0 && \
	  apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless) || \
	  (echo "Spark needs Java 17, which cannot be installed from here: as root, apt-get install openjdk-17-jre-headless; or set JAVA_HOME"; exit 1)
	$(BIN)/python -c 'import pyspark' 2>/dev/null || \
	  $(BIN)/python $(PIP) -c constraints.txt -e '.[spark]'

engines: spark  ## the tests of all engines, on clusters too, with Spark
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -rs -m 'slow or not slow' tests/engines

cover: $(STAMP)  ## all tests with their coverage, which may not fall
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --cov --cov-report=term:skip-covered

mutants: $(STAMP)  ## every privacy mutant against the tests that must kill it; about ten minutes
	$(BIN)/python -m tests.mutants.run --workers $(WORKERS) $(if $(ONLY),--only $(ONLY))

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

docs: $(STAMP)  ## the site, every warning an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open site/index.html; its search needs a server: .venv/bin/mkdocs serve"

lock: $(STAMP)  ## dev.lock anew, from pyproject.toml and constraints.txt
	$(BIN)/uv pip compile pyproject.toml --extra dev -c constraints.txt --python-version 3.11 --generate-hashes \
	  --no-header --no-annotate --no-emit-index-url --quiet -o dev.lock

clean:
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .hypothesis .pytest_cache
