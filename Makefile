# From a bare clone, `make lab` and `make test` do everything, including the set-up. `make` alone lists the targets.

VENV := .venv
PY := $(VENV)/bin/python
PORT ?= 8888
LESSON ?= 00_start_here.ipynb
# The first interpreter that is new enough. Choose another with `make lab PYTHON=/path/to/python`.
NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11 python3.14 python,\
	$(shell $(name) $(NEW_ENOUGH) 2>/dev/null && echo $(name))) python3)
# TORCH_INDEX: an additional package index for PyTorch, such as its CPU builds. Without it, pip on Linux installs the
# build with several gigabytes of CUDA libraries.
# Two thirds of the processor time of pip go into compiling every file (98 seconds; 32 without). Python compiles what is
# used when it is used, and keeps it, unless it may write no bytecode.
NO_COMPILE := $(if $(PYTHONDONTWRITEBYTECODE),,--no-compile)
PIP_INSTALL = $(PY) -m pip install --disable-pip-version-check $(NO_COMPILE) --constraint constraints.txt \
	$(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
# Measured on two busy cores: 225 of 343 seconds were silent.
PATIENCE := Installing 1.5 GB or more. After 'Installing collected packages', pip says nothing for up to some minutes.
# --nbval compares every output with the committed one. The kernel is always that of this .venv.
NBVAL := --nbval --nbval-current-env
# Few processes, because each of them imports torch.
PARALLEL := --numprocesses auto --maxprocesses 4
# Several kernels share the cores: a thread of torch that waits must sleep, not spin (notebooks: 140 s to 85 s).
units weekly test-lowest test-core notebook-tests browser-tests: export OMP_WAIT_POLICY = PASSIVE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:  # a failed `venv` leaves a Python without pip
.PHONY: help install lab test units weekly test-lowest test-core notebook-tests browser-tests browsers check bench reproduce \
	report docs links models notebooks screenshots words clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.installed ## create .venv with everything except what only the tests need

lab: install ## open copies of the lessons in JupyterLab, from my-lessons (LESSON=01_the_line.ipynb PORT=8888 ARGS="--no-browser")
	$(PY) -m alibi_viz.cli lab $(LESSON) --port=$(PORT) $(ARGS)

test: units notebook-tests browser-tests ## run all tests, including the set-up

units: $(VENV)/.installed-tests ## run the unit tests and the examples in docstrings (ARGS="-k slopes")
	$(PY) -m pytest README.md alibi_viz benchmarks docs tests --ignore tests/browser --ignore tests/docs/test_site.py $(PARALLEL) --dist worksteal $(ARGS)

# Kernels add in another order on other processors. These settings make this one take the paths of others.
PATHS := ATEN_CPU_CAPABILITY=default ATEN_CPU_CAPABILITY=avx2 MKL_CBWR=COMPATIBLE
weekly: $(VENV)/.installed-tests ## run what is slow, with new examples, and attention on other paths of the processor
	$(MAKE) units ARGS=--weekly
	for path in $(PATHS); do env $$path $(PY) -m pytest tests/attention $(PARALLEL) || exit 1; done

test-lowest: $(PY) ## run the unit tests with the lowest version of each dependency, in .venv-lowest
	$(PYTHON) -m venv .venv-lowest
	$(PY) tests/lowest.py > .venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pip install --constraint .venv-lowest/constraints.txt --editable '.[test]' \
		$(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
	.venv-lowest/bin/python -m pytest alibi_viz tests --ignore tests/browser $(PARALLEL) --dist worksteal \
		--deselect tests/test_environment.py::test_everything_installed_for_the_project_is_constrained $(ARGS)

# What needs only torch and NumPy, with versions that those may have who have old ALiBi code.
CORE := tests/attention tests/models tests/check tests/test_slopes.py tests/test_bias.py tests/test_cached_bias.py \
	tests/test_minimal.py
test-core: ## test attention, models and checker with any version, in .venv-core (TORCH=2.6.0 NUMPY=1.26.4)
	$(PYTHON) -m venv --clear .venv-core
	.venv-core/bin/python -m pip install --disable-pip-version-check --editable . pytest pytest-xdist hypothesis \
		$(if $(TORCH),torch==$(TORCH)) $(if $(NUMPY),numpy==$(NUMPY)) \
		$(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
	.venv-core/bin/python -m pytest $(CORE) $(PARALLEL) --dist worksteal $(ARGS)

notebook-tests: $(VENV)/.installed-tests ## run every notebook and compare each output with the committed one
	$(PY) -m pytest notebooks/[0-9][0-9]_*.ipynb $(NBVAL) $(PARALLEL) --dist loadfile $(ARGS)

browser-tests: $(VENV)/.installed-tests docs ## test the site, and the apps in JupyterLab, in the installed Chromium
	$(PY) -m pytest tests/browser tests/docs/test_site.py --site site $(PARALLEL) --dist loadfile $(ARGS)

browsers: $(VENV)/.installed-tests ## test the first page and a lesson in Firefox and WebKit (.ci/run browsers also installs these)
	$(PIP_INSTALL) --quiet --editable '.[browsers]'
	xvfb-run --auto-servernum $(PY) -m pytest tests/browser/test_other_engines.py $(ARGS)

check: $(VENV)/.installed-tests ## run ruff and mypy, and check the spelling
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	git ls-files | xargs $(VENV)/bin/codespell

bench: $(VENV)/.installed-tests ## run the benchmarks, print tables, write benchmarks/results.json (ONLY=import_time)
	$(PY) -m benchmarks $(ONLY)

# Takes a little more than three hours on two cores. If interrupted, run it again to continue. The results ship with the package.
reproduce: $(VENV)/.installed ## train the study again and judge its claims (ARGS="--setting adamw")
	$(PY) -m alibi_viz.study --publish alibi_viz/study/published $(ARGS)
	$(PY) -m alibi_viz.study far-keys --out alibi_viz/study/published/far_keys.csv

report: $(VENV)/.installed ## write the pages about the published results and what was measured
	$(PY) -m alibi_viz.study report --out alibi_viz/study/published
	$(PY) -m benchmarks.report

docs: $(VENV)/.installed-docs ## build the site, in the folder site: the page without a kernel, guides, lessons and API
	$(PY) -m sphinx --fail-on-warning --keep-going -d build/docs docs site

links: $(VENV)/.installed-docs ## look whether the links of the site to other sites still lead somewhere
	$(PY) -m sphinx -b linkcheck -d build/docs docs build/links

models: $(VENV)/.installed ## train the models that ship with the package again (a quarter of an hour)
	rm -rf models && $(PY) -m alibi_viz.study models --out models
	rm -rf alibi_viz/study/published/models && mv models alibi_viz/study/published/models
	$(PY) -m alibi_viz.study far-texts --out alibi_viz/study/published/far_texts.csv

notebooks: $(VENV)/.installed-tests ## execute the notebooks and store their outputs and pictures (ONLY=01_the_line)
	$(PY) -m tests.notebooks.execute $(ONLY)

screenshots: $(VENV)/.installed-tests ## renew the pictures of the apps in the notebooks and the README (ONLY=01_the_line)
	$(PY) -m tests.notebooks.pictures $(ONLY)

words: $(VENV)/.installed-tests ## renew tests/widgets/captions.txt, what the apps say: review its diff
	$(PY) -m tests.widgets.captions

clean: ## remove .venv, the caches, and what was built
	rm -rf $(VENV) .venv-lowest .venv-core *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf docs/lessons build dist site

$(PY):
	@$(PYTHON) $(NEW_ENOUGH) || { \
		echo "alibi_viz needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || true)." \
			"Choose a newer one: make lab PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The stamp files skip the installation until a dependency changes.
$(VENV)/.installed: pyproject.toml constraints.txt | $(PY)
	@echo "$(PATIENCE)"
	$(PIP_INSTALL) --editable '.[lab]'
	@touch $@

$(VENV)/.installed-docs: pyproject.toml constraints.txt | $(PY)
	@echo "$(PATIENCE)"
	$(PIP_INSTALL) --editable '.[docs]'
	@touch $@

$(VENV)/.installed-tests: pyproject.toml constraints.txt | $(PY)
	@echo "$(PATIENCE)"
	$(PIP_INSTALL) --editable '.[test]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-docs
