# Everything runs inside .venv, made on first use; nothing else has to be installed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-oldest bench lint docs clean

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

$(BIN)/partwise: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	touch $@

$(VENV)/.ready: $(BIN)/partwise
	$(PIP) -e ".[dev]"
	touch $@

demo: $(BIN)/partwise  ## a tour of five tasks on embedded data, with one report
	$(BIN)/partwise demo --out out/demo

test: $(VENV)/.ready  ## lint, types, tests, doctests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -n 2 --durations=10

OLDEST := .venv-oldest
test-oldest:  ## tests of compiled code with the oldest numba that is supported
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet -e . "numba==0.60.0" pytest pytest-xdist hypothesis
	$(OLDEST)/bin/python -m pytest -q tests/test_compile.py tests/test_kernel_cache.py tests/test_vectors.py tests/test_structures.py

bench: $(VENV)/.ready  ## races against peers, in one run
	$(PIP) -r benchmarks/requirements.txt
	$(BIN)/python benchmarks/crfsuite_race.py
	$(BIN)/python benchmarks/sequence_race.py

lint: $(VENV)/.ready  ## format and check
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/mypy

docs: $(VENV)/.ready  ## the documentation as HTML, in site/
	$(BIN)/sphinx-build -q -W --keep-going -b html docs site
	$(BIN)/python docs/_links.py site

clean:
	rm -rf $(VENV) $(OLDEST) site out build dist docs/reference docs/gallery
