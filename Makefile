# make demo          sets up .venv, compiles the kernels and transcribes real recordings with the bundled models
# make check         format, lint, types and the quick tests: two minutes
# make test          sets up .venv and runs the tests in TESTERS=3 processes: ten minutes on two cores
# make test-long     sets up .venv and runs whole trainings, clusters, browsers and compilers as tests: up to half an hour
# make test-spark    sets up .venv and runs the tests of ds2.spark on a cluster of this machine; needs Java 17
# make lint          format, lint, types
# make lint-deploy   checks the files of deploy/ by the tools of those who read them, and says what it skips
# make docs         builds the site into build/site and executes its pages; make docs-serve shows it at http://127.0.0.1:8000
# make fuzz          attacks ds2 with hostile files and clients for MINUTES=10, prints a table, keeps what broke it in runs/fuzz
# make soak          honest streams beside hostile clients on one server for HOURS=4; prints a table, fails where any is lost
# make fuzz-parsers  the parsers of ds2's own, each for MINUTES, by inputs that coverage guides (atheris)
# make audit         compares constraints.txt with PyPI's list of vulnerabilities (pip-audit); fails where it has no answer, too
# make release       builds wheel, sdist, models, SBOM and checksums of this commit into dist/, the same bytes each time; also
#                    the images IMAGES="cpu onnx" if a docker daemon answers
# make package       builds a release, tests wheel and sdist in empty environments, and builds it twice to compare
# make lock          renews constraints.txt, the versions that set-up installs
# make train-digits  trains the bundled digits model anew: 2 CPU cores, under 15 minutes

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
DIGITS = recipes/digits
MINUTES ?= 10
HOURS ?= 4
TESTERS ?= 3 # more than two cores, because some tests wait
IMAGES ?= $(shell docker info > /dev/null 2>&1 && echo cpu onnx)
PYTEST = $(BIN)/python -m pytest -n $(TESTERS) --dist worksteal
QUICK = $(filter-out tests/test_examples.py, $(wildcard tests/test_*.py)) tests/ctc/test_loss.py tests/decoder

.PHONY: demo check quick test test-long test-spark lint lint-deploy docs docs-serve fuzz fuzz-parsers soak audit release package lock train-digits

demo: $(VENV)/.core
	$(BIN)/python recipes/demo.py

check: $(VENV)/.dev
	$(MAKE) --jobs 2 TESTERS=2 lint quick

quick: $(VENV)/.dev
	$(PYTEST) $(QUICK)

test: $(VENV)/.dev
	@echo "ten minutes on two cores; make check takes two minutes, make test-long has the long tests"
	$(PYTEST) --durations 10

test-long: $(VENV)/.dev
	$(PYTEST) -m long --durations 10

test-spark: $(VENV)/.dev
	$(BIN)/python -m pytest -m spark tests/spark

lint: $(VENV)/.dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

lint-deploy: $(VENV)/.dev
	$(BIN)/python -m pytest -rs tests/deploy

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx --jobs 2 --fail-on-warning --keep-going --quiet docs build/site

docs-serve: docs
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site 8000

fuzz: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python -m fuzz --minutes $(MINUTES)

fuzz-parsers: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet atheris
	for kind in manifest config arpa bundle webm ebml boxes; do \
		PYTHONPATH=tests $(BIN)/python -m fuzz.coverage $$kind --minutes $(MINUTES) || exit 1; \
	done

soak: $(VENV)/.dev
	$(BIN)/python benchmarks/soak.py --hours $(HOURS)

audit:
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet pip-audit
	build/audit/bin/pip-audit --strict --no-deps --disable-pip --progress-spinner off -r constraints.txt

release: $(VENV)/.dev
	$(BIN)/python deploy/release.py --output dist --images $(IMAGES)

package: release
	for package in dist/*.whl dist/*.tar.gz; do bash tests/package.sh $$package || exit 1; done
	DS2_PYTHON=$(abspath $(BIN)/python) bash tests/release.sh dist

lock: $(VENV)/.dev
	$(BIN)/pip-compile --quiet --upgrade --all-extras --strip-extras --no-annotate --no-header --no-emit-options \
	    --no-emit-index-url --no-emit-find-links --constraint constraints.in --output-file - pyproject.toml \
	    | sed -e 's/+cpu$$//' -e '/^#/d' -e '/^ds2/d' > constraints.part
	mv constraints.part constraints.txt

train-digits: $(VENV)/.dev
	bash $(DIGITS)/run.sh $(BIN)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	$(BIN)/ds2 warmup
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	$(BIN)/ds2 warmup
	$(BIN)/python tests/compile_kernels.py
	touch $@ $(VENV)/.core

$(VENV)/.docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	$(BIN)/ds2 warmup
	touch $@ $(VENV)/.core
