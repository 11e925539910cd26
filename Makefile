# Every target builds the environment it needs; a machine with only Python 3.10+ is enough.
PYTHON ?= python3
VENV ?= .venv
PEERS ?= .venv-peers
OLDEST ?= .venv-oldest
# The first one that starts: a shim of pyenv may be there for a Python that is not chosen.
OLDEST_PYTHON ?= $(shell for python in python3.10 \
  $(wildcard $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions/3.10.*/bin/python) $(PYTHON); do \
  $$python -c "" 2> /dev/null && echo $$python && break; done)
BIN = $(VENV)/bin
INSTALL = install --quiet --disable-pip-version-check --constraint constraints.txt

# Two workers fill two cores with one thread each; a worker keeps neighboring tests, which share what
# is computed once. Bytecode is written, since many tests start Python again.
ONE_THREAD = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
TESTS = $(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal
unexport PYTHONDONTWRITEBYTECODE

# Where arrays are computed. The others ask the same functions through public names (questions, audit,
# pitfalls, cli, explore, docs), or draw whole numbers (sampling). Simulations of symmetric means, one plan on every
# surface, and brute force over Renyi curves take too long for a second and a third time.
ARRAY_TESTS = $(addprefix tests/,learn integrations numerics golden laws curves) \
  $(patsubst %,--ignore tests/%.py,numerics/test_symmetric_mean laws/test_one_answer curves/test_renyi_sequences)
# Golden values, laws, audits and shuffled batches, with the functions behind these.
OLDEST_TESTS = $(addprefix tests/,golden laws audit bounds/test_shuffled_batches.py \
  $(patsubst %,numerics/test_%.py,adaptive_others displaced_example displaced_layers switching_others vacant_seat \
  worst_policy worst_replacement))

.DEFAULT_GOAL := help
.PHONY: help demo test test-processors test-oldest test-slow test-frameworks mutants lint style types suite bench bench-many docs pages reproduce clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.demo  ## one real question, answered, with a picture in out/
	$(BIN)/python examples/demo.py

test: style  ## lint, types, every test that is not marked slow, and test-processors
	$(MAKE) --no-print-directory -j 2 types suite
	$(MAKE) --no-print-directory test-processors

test-processors: $(VENV)/.test  ## tests of arrays with the oldest and newest instructions of this processor
	$(BIN)/python -m tests.instruction_sets env $(TESTS) -q $(ARRAY_TESTS)

test-oldest: $(OLDEST)/.oldest  ## tests with the oldest versions that are declared; numpy errors and warnings raise
	$(OLDEST)/bin/python -m pip --disable-pip-version-check list
	$(ONE_THREAD) $(OLDEST)/bin/python -W error -m pytest -p tests.raising_floats $(OLDEST_TESTS)

test-slow: $(VENV)/.test  ## the wild-domain runs and other long checks
	$(TESTS) -m slow

test-frameworks: $(VENV)/.frameworks  ## tests with transformers, Lightning, Flower, Beam, dask, Ray, jax-privacy, pandas, Jupyter
	$(BIN)/python -m pytest $(addprefix tests/integrations/test_,frameworks.py executors.py materialized.py \
	  huggingface.py lightning.py flower.py) tests/docs/test_notebooks.py tests/display/test_tabular.py
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

pages: $(VENV)/.test  ## compute again all outputs, pictures and papers of the docs; fails if a text differs
	$(ONE_THREAD) $(BIN)/python -m tests.docs.computed_pages

reproduce: $(VENV)/.plots  ## five papers again: their tables and figures beside the truth; fails if a page differs
	$(BIN)/python -m reproduce

clean:  ## remove the environments and everything built
	rm -rf $(VENV) $(PEERS) $(OLDEST) .mypy_cache .ruff_cache .pytest_cache .hypothesis docs/_build out

# One stamp per purpose: installed again only if the requirements change. Dependency groups need a pip of
# 2025, which Python 3.10 to 3.13 do not bring along.
PIP_WITH_GROUPS = pip>=25.1

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(PEERS)/bin/python:
	$(PYTHON) -m venv $(PEERS)

$(OLDEST)/bin/python:
	$(OLDEST_PYTHON) -m venv $(OLDEST)

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

# The first install only makes the requirements known; the second one is held to their lower ends.
$(OLDEST)/.oldest: pyproject.toml tests/oldest_versions.py | $(OLDEST)/bin/python
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check "$(PIP_WITH_GROUPS)"
	$(OLDEST)/bin/python -m pip install --quiet --no-deps --editable .
	$(OLDEST)/bin/python -m tests.oldest_versions cli > $(OLDEST)/versions.txt
	$(OLDEST)/bin/python -m pip install --quiet --constraint $(OLDEST)/versions.txt \
	  --editable ".[cli]" --group core
	@touch $@
