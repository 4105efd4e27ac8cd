PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := runs/demo
# Waiting OpenMP threads would spin and slow every process beside them.
export OMP_WAIT_POLICY := PASSIVE

# As many tests at once as there are cores; those of one file in one process, which makes their fixtures once.
PYTEST := $(BIN)/python -m pytest -q -n auto --dist loadfile

.PHONY: demo test test-all test-browser test-portable test-wheel screenshots lint bench federation test-federation test-federation-all docs nginx chromium dist clean

demo: $(VENV)/.ready  ## the main job on real data, with pictures at the end; goes on where it was interrupted
	if [ -e $(DEMO)/settings.toml ]; then $(BIN)/pmafl run --resume $(DEMO); \
	else $(BIN)/pmafl run mnist --out $(DEMO); fi

test: $(VENV)/.ready-dev  ## every test of some seconds, on all cores
	$(PYTEST)

test-all: $(VENV)/.ready-dev chromium  ## also the heavy ones, more examples, and doctests; prints coverage and the slowest
	$(PYTEST) -m 'not federation' --hypothesis-profile thorough --doctest-modules --cov --durations 20 tests pmafl

test-browser: $(VENV)/.ready-dev chromium  ## pages in headless Chromium
	$(PYTEST) -m browser tests/page

test-portable: $(VENV)/.ready-dev  ## the numeric tests with other instruction sets of this processor
	$(BIN)/python -m tests.portable $(PORTABLE)

test-wheel:  ## the wheel in a clean environment without PyTorch: what it weighs, and that it schedules, plans and shows
	$(PYTHON) tests/wheel.py

screenshots: demo $(VENV)/.ready-dev chromium  ## the pictures of the README
	$(BIN)/python docs/screenshots.py $(DEMO)

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.ready-dev  ## speed, as ratios measured side by side
	$(BIN)/python benchmarks/scheduling.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/loop.py
	$(BIN)/python benchmarks/workers.py
	$(BIN)/python benchmarks/service.py stream

federation: $(VENV)/.ready-flower nginx  ## three devices on this machine over Flower, with TLS and keys: docs/deploy.md
	$(BIN)/python -m pmafl.flower.loopback

test-federation: $(VENV)/.ready-dev $(VENV)/.ready-flower nginx  ## those that start and kill SuperLinks and SuperNodes
	$(BIN)/python -m pytest -q -m 'federation and not heavy' tests/flower

test-federation-all: $(VENV)/.ready-dev $(VENV)/.ready-flower nginx  ## every algorithm on Flower's own engine, too
	$(BIN)/python -m pytest -q -m federation tests/flower

docs: $(VENV)/.ready-docs  ## the site, in build/docs: start with index.html; tutorials are executed, warnings are errors
	$(BIN)/sphinx-build -q -W --keep-going -n -j 2 docs build/docs
	@echo "the site is in build/docs; start with build/docs/index.html"

nginx:  # the port for devices; /usr/sbin is not on everybody's path
	@PATH="$$PATH:/usr/sbin"; command -v nginx > /dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends nginx > /dev/null; } || \
	  { echo "error: nginx is not installed; as root: apt-get install nginx"; exit 2; }

chromium:  # opens the pages that are tested
	@command -v chromium > /dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends chromium fonts-dejavu-core fonts-noto-color-emoji > /dev/null; } || \
	  { echo "error: Chromium is not installed; as root: apt-get install chromium"; exit 2; }

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is older than 3.11; run make PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[learn]'
	touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

$(VENV)/.ready-flower: $(VENV)/.ready
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[flower]'
	touch $@

$(VENV)/.ready-docs: $(VENV)/.ready
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

dist:  ## the wheel and the source archive of a release; CONTRIBUTING.md says how one is made
	$(PYTHON) -m venv build/environment
	build/environment/bin/pip install --quiet build
	build/environment/bin/python -m build --outdir dist

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
