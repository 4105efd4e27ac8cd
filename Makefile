PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Waiting OpenMP threads would spin and slow every process beside them.
export OMP_WAIT_POLICY := PASSIVE

.PHONY: demo test lint bench clean

demo: $(VENV)/.ready  ## the main job on real data, with pictures at the end
	$(BIN)/pmafl run mnist --out runs/demo

test: $(VENV)/.ready  ## every test
	$(BIN)/python -m pytest -q

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.ready  ## speed, as ratios measured side by side
	$(BIN)/python benchmarks/scheduling.py
	$(BIN)/python benchmarks/training.py

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is older than 3.11; run make PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
