# Every target builds the environment it needs; a machine with only Python 3.10+ is enough.
PYTHON ?= python3
VENV ?= .venv
PEERS ?= .venv-peers
BIN = $(VENV)/bin
INSTALL = install --quiet --disable-pip-version-check --constraint constraints.txt

# Two workers fill two cores with one thread each; a worker keeps neighboring tests, which share what
# is computed once. Bytecode is written, since many tests start Python again.
TESTS = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-frameworks mutants lint style types suite bench bench-many docs reproduce clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.demo  ## one real question, answered, with a picture in out/
	$(BIN)/python examples/demo.py

test: style  ## lint, types, and every test that is not marked slow
	$(MAKE) --no-print-directory -j 2 types suite

test-slow: $(VENV)/.test  ## the wild-domain runs and other long checks
	$(TESTS) -m slow

test-frameworks: $(VENV)/.frameworks  ## tests with transformers, Lightning, Flower, Beam, dask, Ray, jax-privacy, pandas, Jupyter
	$(BIN)/python -m pytest $(addprefix tests/integrations/test_,frameworks.py executors.py materialized.py \
	  huggingface.py lightning.py flower.py) tests/docs/test_notebooks.py tests/unit/test_tabular.py
	$(BIN)/python -m pytest tests/docs/test_pages.py -k "huggingface or lightning or flower"

mutants: $(VENV)/.test  ## break trust-critical code on purpose, one change at a time: do tests notice?
	$(BIN)/python -m tests.mutants --jobs 2

lint: style types  ## ruff and mypy only

style: $(VENV)/.test
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/.test
	$(BIN)/mypy

suite: $(VENV)/.test
	$(TESTS)

bench: $(PEERS)/.peers  ## sharpdp and the other accountants in one run
	$(PEERS)/bin/python benchmarks/peers.py
	$(PEERS)/bin/python benchmarks/batches.py

bench-many: $(PEERS)/.peers  ## many questions at once, with the other accountants: a table and a picture
	$(PEERS)/bin/python benchmarks/many_questions.py

docs: $(VENV)/.docs  ## the documentation, as docs/_build/html
	$(BIN)/python -m sphinx -W -q -b html docs docs/_build/html

reproduce: $(VENV)/.plots  ## five papers again: their tables and figures beside the truth
	$(BIN)/python -m reproduce

clean:  ## remove the environments and everything built
	rm -rf $(VENV) $(PEERS) .mypy_cache .ruff_cache .pytest_cache .hypothesis docs/_build out

# One stamp per purpose: installed again only if the requirements change. Dependency groups need a pip of
# 2025, which Python 3.10 to 3.13 do not bring along.
PIP_WITH_GROUPS = pip>=25.1

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(PEERS)/bin/python:
	$(PYTHON) -m venv $(PEERS)

$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip $(INSTALL) --editable ".[cli,plots]"
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip $(INSTALL) "$(PIP_WITH_GROUPS)"
	$(BIN)/python -m pip $(INSTALL) --editable ".[all]" --group test
	@touch $@

$(VENV)/.frameworks: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip $(INSTALL) "$(PIP_WITH_GROUPS)"
	$(BIN)/python -m pip $(INSTALL) --editable ".[all]" --group frameworks --group flower-imports
	$(BIN)/python -m pip $(INSTALL) --no-deps "flwr>=1.42"
	@touch $@

$(VENV)/.docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip $(INSTALL) "$(PIP_WITH_GROUPS)"
	$(BIN)/python -m pip $(INSTALL) --editable . --group docs
	@touch $@

$(VENV)/.plots: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip $(INSTALL) --editable ".[plots]"
	@touch $@

$(PEERS)/.peers: pyproject.toml constraints.txt | $(PEERS)/bin/python
	$(PEERS)/bin/python -m pip $(INSTALL) "$(PIP_WITH_GROUPS)"
	$(PEERS)/bin/python -m pip $(INSTALL) --editable . --group peers
	@touch $@
