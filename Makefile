# The front door. Every target sets up what it needs in .venv; nothing else has to be installed first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

SOAK   ?= 20000

.PHONY: setup demo test coverage lint soak bench bench-quick study docs paper dist test-dist clean
.DEFAULT_GOAL := setup

setup: $(VENV)/.installed  ## install stoptime and its tools into .venv

# The stamp makes a second run start at once: pip is called only when the requirements change.
$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[all]" --group dev
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --group docs
	touch $@

demo: setup  ## run the main job on built-in data and leave a picture to look at
	$(BIN)/stoptime reproduce --out reproduction

# A worker for each processor, four at most, and a thread for each worker.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses=logical --maxprocesses=4 --dist=worksteal

test: setup  ## run all tests, docstrings and README included
	$(PYTEST)

coverage: setup  ## run all tests, and say which lines they do not reach; slower by a fifth
	$(PYTEST) --cov --cov-report=term

soak: setup  ## try SOAK generated problems, 20000 by default, against a slow oracle: an hour or so
	STOPTIME_SOAK=$(SOAK) $(BIN)/python -m pytest tests/soak tests/estimators/test_checks.py \
		tests/stopping/test_leave_one_out.py tests/stopping/test_training_error.py \
		tests/bounds/test_adaptive.py tests/bounds/test_bounds.py tests/test_text.py

lint: setup  ## style and strict types, from inside and as users see them
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file= --cache-dir=.mypy_cache/outside --strict tests/typing/outside.py

$(VENV)/.installed-bench: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --group bench
	touch $@

bench: $(VENV)/.installed-bench  ## measure speed as ratios to peers, and write docs/benchmarks.md
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.real_data

bench-quick: $(VENV)/.installed-bench  ## print a smaller run in under four minutes
	$(BIN)/python -m benchmarks --quick
	$(BIN)/python -m benchmarks.real_data --quick

study: $(VENV)/.installed-bench  ## compare prediction errors on many data sets, and write docs/datasets.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.datasets

# Drawn again when an experiment or an example changes: the pages quote numbers of the figures.
FIGURES := docs/figures/summary.md

$(FIGURES): $(wildcard src/stoptime/paper/*.py examples/*.py) | $(VENV)/.installed
	$(BIN)/python tools/figures.py docs/figures

docs: $(VENV)/.installed-docs $(FIGURES)  ## build the documentation into docs/_build/html
	$(BIN)/python tools/constants.py --check
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

ifneq ($(and $(shell command -v latexmk),$(shell command -v xelatex)),)
paper: $(VENV)/.installed-docs $(FIGURES)  ## print the theory as one PDF, docs/_build/paper/stoptime.pdf
	$(BIN)/sphinx-build -W --keep-going -t paper -b latex docs docs/_build/paper
	$(MAKE) -C docs/_build/paper LATEXMKOPTS=-quiet
else
paper:
	@echo "No PDF was made, because LaTeX is missing; on Debian, install it with: apt-get install latexmk" \
		"texlive-latex-recommended texlive-latex-extra texlive-fonts-recommended texlive-xetex fonts-freefont-otf"
endif

dist: setup  ## build the sdist and, from it, the wheel
	rm -rf dist
	$(BIN)/python -m build --outdir dist

test-dist: dist  ## install the wheel into an empty environment and run the README there
	$(BIN)/python tools/test_dist.py

clean:  ## remove everything the other targets made
	rm -rf $(VENV) dist docs/_build docs/figures docs/gallery .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.* reproduction
