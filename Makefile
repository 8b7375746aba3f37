# The front door. Every target sets up what it needs in .venv; nothing else has to be installed first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

SOAK   ?= 20000

.PHONY: setup demo test soak lint bench docs clean
.DEFAULT_GOAL := setup

setup: $(VENV)/.installed  ## install stoptime and its tools into .venv

# The stamp makes a second run start at once: pip is called only when the requirements change.
$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@

demo: setup  ## run the main job on built-in data and leave a picture to look at
	$(BIN)/stoptime reproduce --out reproduction

test: setup  ## run all tests, docstrings and README included
	$(BIN)/python -m pytest --cov --cov-report=term

soak: setup  ## try SOAK generated problems, 20000 by default, against a slow oracle: an hour or so
	STOPTIME_SOAK=$(SOAK) $(BIN)/python -m pytest tests/test_soak.py tests/test_robustness.py tests/test_extremes.py

lint: setup  ## style and strict types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup  ## print speed as ratios to the bare linear algebra, side by side in one run
	$(BIN)/python benchmarks/paths.py
	$(BIN)/python benchmarks/choosing.py
	$(BIN)/python benchmarks/iterations.py
	$(BIN)/python benchmarks/sparse.py

docs: $(VENV)/.installed-docs  ## build the documentation into docs/_build/html
	test -e docs/figures/summary.md || $(BIN)/stoptime reproduce --out docs/figures
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

clean:  ## remove everything the other targets made
	rm -rf $(VENV) docs/_build docs/figures .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage reproduction
