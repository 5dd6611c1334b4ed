# make install | figures | test | test-quick | test-all | lab | docs | readme | lint | hooks | lock | clean
#
# `make figures` and `make test` set up all they need. PYTHON names the interpreter that the environment is made with.

# the first that runs; a name may be there without an interpreter behind it
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3.14 python3; do $$name -c "" 2>/dev/null && echo $$name && break; done)
# quick evaluates the weights that come with the package; where there are none, laptop trains them
PROFILE ?= $(if $(wildcard data/weights/*.safetensors),quick,laptop)
PAPER ?= aawm
# processes that test: one more than the smallest machine has cores, for a third of the time a test waits for others
TESTERS ?= 3
# READER=1 leaves out what only developers use (tests, style, types, export)
READER ?=
# the exact set of requirements/lock.txt, each file checked by its hash; `make install EXACT=` takes what the ranges of settings.ini allow
EXACT ?= yes
BIN := .venv/bin
# bytecode is written when a module is first used: half a minute and 300 MB less at once. Where the environment forbids it, each process
# would compile all libraries anew, which takes longer than most jobs
export PYTHONDONTWRITEBYTECODE =
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check install --no-compile
define SAY_TORCH
from importlib.metadata import distributions, version
cuda = any(dist.name.startswith('nvidia-') for dist in distributions())
print('torch', version('torch'), '(with CUDA, some 3 GB)' if cuda else '(without CUDA)')
endef
export SAY_TORCH
export PYTHONUNBUFFERED = 1

.PHONY: install figures test test-quick test-all lab docs readme lint sample hooks lock clean

# a reader's environment lacks what others have, so each has a mark of its own
INSTALLED := .venv/installed$(if $(READER),-reader)

install: $(INSTALLED)

$(INSTALLED): settings.ini setup.py pyproject.toml $(wildcard requirements/*.txt)
	$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v >= (3, 11) else "aawm needs Python 3.11 or newer, and found %d.%d: name one, as in make install PYTHON=python3.12" % v)'
	@echo 'installing into .venv: one to ten minutes, by the network'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
ifeq ($(EXACT),yes)
	$(PIP) --require-hashes --requirement requirements/pip.txt
	nvidia-smi > /dev/null 2>&1 || $(PIP) --retries 1 --no-deps --require-hashes --requirement requirements/torch-cpu.txt 2> /dev/null || true
	$(PIP) --require-hashes --requirement requirements/$(if $(READER),reader,lock).txt --constraint requirements/gpu.txt
	$(PIP) --no-deps --no-build-isolation --editable .
else
	$(PIP) --editable '.[$(if $(READER),reader,dev)]'
endif
	$(BIN)/python -c "$$SAY_TORCH"
	touch $@

figures: install
	$(BIN)/aawm reproduce --paper $(PAPER) --profile $(PROFILE)

test: install
	$(BIN)/ruff check aawm nbs
	$(BIN)/python -m pytest -m 'not slow' -n $(TESTERS) --dist worksteal

# what another Python or other versions of libraries may break: minutes of a core
QUICK := $(addprefix aawm/tests/,events data sim models/test_models.py models/test_context.py evaluation/test_exchange.py \
    viz test_readers.py test_hostile.py test_cli.py)

test-quick: install
	$(BIN)/python -m pytest -m 'not slow' $(QUICK)

test-all: install
	$(BIN)/python -m pytest -n $(TESTERS) --dist worksteal

lab: install
	$(BIN)/jupyter lab nbs/index.ipynb

# the site, in _docs/html; its tools are installed for it alone
docs: .venv/docs
	rm -rf _docs && mkdir -p _docs/extra
	$(BIN)/aawm generate _docs/trials --trials 54 --seed 7
	$(BIN)/aawm play _docs/trials --run event_transformer --run faced --save _docs/extra/trial.html
	$(BIN)/python -c 'from aawm.files import write_text; from aawm.study.challenge import challenge_page as page; write_text("_docs/extra/challenge.html", page("_docs/trials"))'
	$(BIN)/python -m sphinx -q -W --keep-going -d _docs/doctrees -c docs nbs _docs/html

.venv/docs: $(INSTALLED)
	$(PIP) --require-hashes --requirement requirements/docs.txt --constraint requirements/lock.txt --constraint requirements/gpu.txt
	touch $@

# style, then types: a dozen seconds
lint: install
	$(BIN)/ruff check --fix aawm nbs
	$(BIN)/mypy

# README.md is the page nbs/index.ipynb, run anew, with links as seen from the root; cells tagged remove-input show what they write alone
readme: install
	$(BIN)/jupyter execute --inplace nbs/index.ipynb && $(BIN)/nbdev_clean --fname nbs/index.ipynb
	$(BIN)/jupyter nbconvert --log-level ERROR --to markdown --stdout --TagRemovePreprocessor.enabled=True --TagRemovePreprocessor.remove_input_tags remove-input nbs/index.ipynb | sed -E 's#\]\(([a-z0-9_][^):]*)\)#](nbs/\1)#g; s#\]\(\.\./#](#g' | cat -s > .part-README.md
	test -s .part-README.md && mv .part-README.md README.md

# the dataset card and the nine raw trials under data/, when the simulator has changed
sample: install
	$(BIN)/python -c 'from aawm.runs import run_notebook; run_notebook("nbs/pipeline/sample.ipynb", "data/scratch/sample.ipynb", {}, progress=True)'

hooks: install
	$(BIN)/nbdev_install_hooks

# exact versions with hashes from the ranges in settings.ini; needs uv. `make lock UPGRADE=--upgrade` takes the newest
lock:
	.ci/lock $(UPGRADE)

clean:
	rm -rf $(foreach folder,data data/infant data/marple figures figures/infant figures/marple,$(folder)/smoke $(folder)/smoke-custom-*)
	rm -rf _docs build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -exec rm -rf {} +
