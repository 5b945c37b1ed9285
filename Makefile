# From a bare clone, `make lab` and `make test` do everything, set-up included. `make` alone lists the targets.

VENV := .venv
PY := $(VENV)/bin/python
PORT ?= 8888
# The first interpreter that is new enough; any other: `make lab PYTHON=/path/to/python`.
NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11 python3.14 python,\
	$(shell $(name) $(NEW_ENOUGH) 2>/dev/null && echo $(name))) python3)
# TORCH_INDEX: one more package index to look for PyTorch on, such as the CPU builds of pytorch.org. Without it, pip on
# Linux takes the build that brings some gigabytes of CUDA.
PIP_INSTALL = $(PY) -m pip install --disable-pip-version-check --constraint constraints.txt \
	$(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
# --nbval compares every output with the committed one; the kernel is the one of this .venv, whatever else is installed.
NBVAL := --nbval --nbval-current-env
# Files run side by side, in few processes: each of them imports torch.
PARALLEL := --numprocesses auto --maxprocesses 4 --dist loadfile
# Without this, JupyterLab asks at its first start whether it may fetch news, and looks for newer versions of itself.
SILENCE = $(PY) -m jupyter labextension disable --level=sys_prefix @jupyterlab/apputils-extension:announcements
# In a container one is often root, where Jupyter refuses to start unless told; it still listens on 127.0.0.1 only.
ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

.DEFAULT_GOAL := help
.PHONY: help install lab test units notebook-tests browser-tests check bench reproduce models notebooks screenshots clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.installed ## .venv with everything but what only tests need

lab: install ## JupyterLab on notebooks/ (PORT=8888, more options in ARGS="--no-browser")
	$(PY) -m jupyterlab notebooks --ip=127.0.0.1 --port=$(PORT) $(ROOT) $(ARGS)

test: units notebook-tests browser-tests ## everything below, set-up included

units: $(VENV)/.installed-tests ## unit tests and the examples in docstrings (ARGS="-k slopes")
	$(PY) -m pytest alibi_viz benchmarks tests --ignore tests/browser $(PARALLEL) $(ARGS)

notebook-tests: $(VENV)/.installed-tests ## run every notebook and compare each output with the committed one
	$(PY) -m pytest notebooks $(NBVAL) $(PARALLEL) $(ARGS)

browser-tests: $(VENV)/.installed-tests ## drive JupyterLab in the Chromium of this machine
	$(PY) -m pytest tests/browser $(ARGS)

check: $(VENV)/.installed-tests ## ruff and mypy
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy

bench: $(VENV)/.installed-tests ## measure, print a table, write benchmarks/results.json (ONLY=import_time)
	$(PY) -m benchmarks $(ONLY)

# 21 minutes in two processes of a busy machine. Stopped and called again, it goes on where it was. The results ship with the package once complete.
reproduce: $(VENV)/.installed ## train the default comparison, judge every claim, renew the published results
	$(PY) -m alibi_viz.lab reproduce --workers 2 --out comparison.jsonl $(ARGS)
	mv comparison.jsonl alibi_viz/lab/published/comparison.jsonl

models: $(VENV)/.installed ## train the models that ship with the package again, in a minute
	rm -rf models && $(PY) -m alibi_viz.lab models --out models
	rm -rf alibi_viz/lab/published/models && mv models alibi_viz/lab/published/models

notebooks: $(VENV)/.installed-tests ## execute the notebooks and store their outputs without widget state (ONLY=01_slopes)
	$(PY) notebooks/execute.py $(ONLY)

screenshots: $(VENV)/.installed-tests ## photograph the apps in a running JupyterLab into notebooks/images/ (ONLY=01_slopes)
	$(PY) -m tests.browser.screenshots $(ONLY)

clean: ## remove .venv and the caches
	rm -rf $(VENV) *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(PY):
	@$(PYTHON) $(NEW_ENOUGH) || { \
		echo "alibi_viz needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || true)." \
			"Name a newer one: make lab PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The stamps make a second call quick, and a changed dependency felt.
$(VENV)/.installed: pyproject.toml constraints.txt | $(PY)
	$(PIP_INSTALL) --editable .
	@$(SILENCE) >/dev/null 2>&1
	@touch $@

$(VENV)/.installed-tests: pyproject.toml constraints.txt | $(PY)
	$(PIP_INSTALL) --editable '.[test]'
	@$(SILENCE) >/dev/null 2>&1
	@touch $@ $(VENV)/.installed
