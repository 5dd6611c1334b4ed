# make install | figures | test | test-all | lab | docs | readme | lint | hooks | clean
#
# `make figures` and `make test` set up all they need. PYTHON names the interpreter that the environment is made with.

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
PROFILE ?= laptop
BIN := .venv/bin
export PYTHONUNBUFFERED = 1

# the frozen set of the interpreter's version, where there is one
CONSTRAINTS = $(wildcard requirements/constraints-py$(shell $(PYTHON) -c 'import sys; print("%d%d" % sys.version_info[:2])').txt)

.PHONY: install figures test test-all lab docs readme lint sample hooks clean

install: .venv/installed

.venv/installed: settings.ini setup.py $(wildcard requirements/*.txt)
	$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 13) else "aawm needs Python 3.11 or 3.12, and found %d.%d: name one, as in make install PYTHON=python3.11" % v)'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS)) --editable '.[dev]'
	touch $@

figures: install
	$(BIN)/aawm reproduce --profile $(PROFILE)

test: install
	$(BIN)/ruff check aawm nbs
	$(BIN)/python -m pytest -m 'not slow' -n 2 --dist worksteal

test-all: install
	$(BIN)/python -m pytest -n 2 --dist worksteal

lab: install
	$(BIN)/jupyter lab nbs/index.ipynb

# the site, in _docs/html; its tools are installed for it alone
docs: .venv/docs
	$(BIN)/python -c 'from aawm.runs.site import build_site; print(build_site())'

.venv/docs: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS)) --editable '.[docs]'
	touch $@

lint: install
	$(BIN)/ruff check --fix aawm nbs

# README.md is the page nbs/index.ipynb, with links as seen from the root
readme: install
	$(BIN)/jupyter nbconvert --log-level ERROR --to markdown --stdout nbs/index.ipynb | sed -E 's#\]\(([a-z0-9_][^):]*)\)#](nbs/\1)#g; s#\]\(\.\./#](#g' > README.md

# the dataset card and the nine raw trials under data/, when the simulator has changed
sample: install
	$(BIN)/python -c 'from aawm.runs import run_notebook; run_notebook("nbs/pipeline/sample.ipynb", "data/scratch/sample.ipynb", {}, progress=True)'

hooks: install
	$(BIN)/nbdev_install_hooks

clean:
	rm -rf _docs data/smoke data/smoke-custom-* figures/smoke figures/smoke-custom-* build dist .pytest_cache .ruff_cache .hypothesis lightning_logs
	find . -name __pycache__ -not -path './.venv/*' -exec rm -rf {} +
