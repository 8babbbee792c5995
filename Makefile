# Nothing but Python 3.11 and make is needed: the first target builds .venv.
#   make main                  the main results at the size of a laptop
#   make main PROFILE=smoke    the same at toy size: minutes, too few cases for a result
#   make help                  everything else

PROFILE ?= mini
PYTHON  ?= python3
# make test KERNELS=no-avx512 TESTS=tests/test_flow.py: under a set of tests/kernels.py, these files alone
KERNELS := here
TESTS   :=
PYTEST   = $(BIN)/python tests/kernels.py $(KERNELS) $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
BIN     := .venv/bin
# named after what was installed: every nbdev-export writes pyproject.toml, mostly with the same content
STAMP   := .venv/.installed-$(firstword $(shell cat pyproject.toml requirements.lock | cksum))
TYPST   := .venv/.report

# One thread a process: small models run faster as several processes side by side.
export OMP_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
# glibc keeps freed buffers instead of returning them at every step; training is about twice as fast.
export MALLOC_MMAP_THRESHOLD_ := 33554432
export MALLOC_TRIM_THRESHOLD_ := 1073741824
export MALLOC_TOP_PAD_ := 67108864
# Jupyter kernels of other installations stay out.
unexport JUPYTER_PATH
# The processor, not the environment, chooses kernels: with other ones a few scores differ in their last digit.
unexport OPENBLAS_CORETYPE

.DEFAULT_GOAL := help
.PHONY: main paper labels public tree replicate figures report check test test-all hooks lab bench clean help

main: $(STAMP)     ## run the main experiment (data, density, main table, bootstrap) and print the main table
	@$(BIN)/modit main --profile $(PROFILE)

paper: $(STAMP)    ## run every experiment of the paper
	@$(BIN)/modit main paper --profile $(PROFILE)

labels: $(STAMP)   ## label 50,000 cases a domain, and train on parts of them; goes on where it was stopped
	@$(BIN)/modit sweep labelled domains=D1,D2,D3 --profile $(PROFILE)  # domains apart first: on all cores
	@$(BIN)/modit run labelled --profile $(PROFILE) --fresh

public: $(STAMP)   ## get, embed and train on WordNet, tweets and icons, into figures/public and figures/icons
	@$(BIN)/modit public --profile public
	@$(BIN)/modit main public --profile public
	@$(BIN)/modit public --profile icons
	@$(BIN)/modit main public --profile icons

tree: $(STAMP)     ## the same on branches of WordNet, into figures/tree
	@$(BIN)/modit public --profile tree
	@$(BIN)/modit main public --profile tree

replicate: $(STAMP) ## main, preference, order and candidate pages in a second world, both verdicts side by side
	@$(BIN)/modit main replicate --profile $(PROFILE)

figures: $(STAMP)  ## redraw tables and figures from the committed scores; trains nothing
	@$(BIN)/modit figures --profile $(PROFILE)

report: $(TYPST)   ## write the report, a paper as HTML and PDF, from the tables and the ledger into docs
	@$(BIN)/python -c 'from modit.repro.report.article import write_report; write_report()'

check: $(STAMP)    ## before a commit, a minute or two: export, style, contracts, and the pages that changed
	@$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not slow' --changed tests/test_repo.py tests/test_style.py tests/test_notebooks.py

test: $(STAMP)     ## run what a change of the code can break: pages of the library, units, contracts (minutes)
	@$(PYTEST) -m 'not slow' $(TESTS)

test-all: test     ## and then whole runs, kills, every experiment, recipes, wheels, Slurm
	@$(PYTEST) -m slow $(TESTS)

hooks: $(STAMP)    ## let git clean, export and lint at every commit, and merge notebooks cell by cell
	@$(BIN)/pre-commit install
	@git config merge.jupyternotebook.driver "'$(CURDIR)/$(BIN)/nbdev-merge' %O %A %B %P"
	@git config diff.jupyternotebook.command "'$(CURDIR)/$(BIN)/nbdev-diff-driver'"

lab: $(STAMP)      ## read and edit the notebooks in JupyterLab
	@$(BIN)/jupyter lab --LabApp.default_url=/lab/tree/nbs

clean:             ## delete models, labels and executed notebooks; keeps .venv and what is committed
	rm -rf runs figures/smoke figures/*/sweeps .snakemake .pytest_cache .ruff_cache build
	find figures -mindepth 3 -maxdepth 3 -path '*/runs/*' ! -path 'figures/mini/runs/seed=1' -exec rm -rf {} +

help:              ## this list; PROFILE is smoke, mini (the default), large or paper
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-9s %s\n", $$1, $$2}' Makefile

$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --upgrade pip -c requirements.lock
	@echo 'Installing into .venv: about two minutes, 2 GB'
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install -q -c requirements.lock -e ".[dev]" || \
		{ echo 'Was a release withdrawn? Delete its line of requirements.lock, and try again.'; exit 1; }
	@rm -f .venv/.installed-*
	@touch $@

$(TYPST): $(STAMP)
	$(BIN)/python -m pip install -q -c requirements.lock -e ".[report]"
	@touch $@
