# make demo          sets up and transcribes real recordings with the bundled model
# make test          sets up and runs the tests
# make lint          format, lint, types
# make train-digits  trains the bundled model anew: 2 CPU cores, under 15 minutes

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
DIGITS = recipes/digits

.PHONY: demo test lint train-digits

demo: $(VENV)/.core
	$(BIN)/python $(DIGITS)/demo.py

test: $(VENV)/.dev
	$(BIN)/python -m pytest

lint: $(VENV)/.dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

train-digits: $(VENV)/.dev
	bash $(DIGITS)/run.sh $(BIN)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@ $(VENV)/.core
