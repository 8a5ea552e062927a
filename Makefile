# Set-up and everyday commands; `make` alone lists them. What can be set on the command line:
#   PYTHON       the interpreter; without it, the first one below that runs and is new enough
#   TORCH        what pip is asked for before all else in the test environment, options included
#   PYTEST_ARGS  passed on to pytest (-n 0 for a single process), as BENCH_ARGS to the benchmark and
#                DEMO_ARGS to the demo
PYTHON ?=
TORCH ?= torch==2.13.0
PYTEST_ARGS ?=
BENCH_ARGS ?=
DEMO_ARGS ?=
export PYTHON TORCH

pythons := python3.11 python3.12 python3.13 python3.10 python3

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow lint docs bench performance clean FORCE

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

demo: .venv/.stamp ## install truerank without torch, run its demo and write its report
	.venv/bin/python -m truerank demo --report truerank-demo.html $(DEMO_ARGS)

test: .venv-test/.stamp ## run the tests
	$(pytest) -m "not slow" $(PYTEST_ARGS)

# pytest's exit status 5, no test collected, is right as long as no test is marked.
test-slow: .venv-test/.stamp ## run the tests marked slow
	HYPOTHESIS_PROFILE=slow $(pytest) -m slow $(PYTEST_ARGS) \
	|| { [ $$? -eq 5 ] && ! grep -rqE --include='*.py' 'mark\.(slow|thorough)' tests/; }

lint: .venv-test/.stamp ## check style and types
	.venv-test/bin/python -m ruff check .
	.venv-test/bin/python -m mypy

# Strict: a dead link, or a name that the reference does not find, fails it.
docs: .venv-docs/.stamp ## build the documentation site in build/site
	.venv-docs/bin/python scripts/build_site.py
	.venv-docs/bin/zensical build --clean --strict
	@echo "Open build/site/index.html, or with its search: python3 -m http.server -d build/site"

bench: .venv-test/.stamp ## measure speed and memory against other tools
	.venv-test/bin/python -m bench $(BENCH_ARGS)

performance: .venv-test/.stamp ## measure, and put the tables and the picture into the docs
	.venv-test/bin/python -m bench --record bench/cpu.json
	.venv-test/bin/python -m bench --tree --record bench/trees.json
	.venv-test/bin/python -m bench.openset --threads 1 --record bench/thresholds.json
	.venv-test/bin/python scripts/document_performance.py

clean: ## remove the environments, caches and build outputs
	rm -rf .venv .venv.partial .venv.old .venv-test .venv-test.partial .venv-test.old
	rm -rf .venv-docs .venv-docs.partial .venv-docs.old .cache
	rm -rf truerank-demo.html build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Two workers for two cores, each with one thread in the libraries. Each begins with its half of the
# tests in their order, so that what a module computes once is computed in one of them.
pytest := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1 \
	.venv-test/bin/python -m pytest -n 2 --dist worksteal

# The environments. Each is built beside its place and renamed into it when complete, so that an
# interrupted install is done again from nothing and a failed one leaves the previous in use.
# Its stamp is written first, so that pyproject.toml is newer if it changes while pip runs.

.venv/.stamp: pyproject.toml
	$(begin)
	@echo "Installing truerank into .venv ..."
	@$(pip) -e '.[report]'
	$(finish)

.venv-test/.stamp: pyproject.toml constraints.txt
	$(begin)
	@echo "Installing $$TORCH into .venv-test ..."
	@$(pip) $$TORCH
	@$(partial)/bin/python -c 'from importlib.metadata import version; \
	print("torch==" + version("torch"))' > $(partial)/torch.txt
	@echo "Installing truerank and its test tools into .venv-test ..."
	@$(pip) -c constraints.txt -c $(partial)/torch.txt -e '.[dev]'
	$(finish)

.venv-docs/.stamp: constraints-docs.txt
	$(begin)
	@echo "Installing the documentation's tools into .venv-docs ..."
	@$(pip) -c constraints-docs.txt zensical mkdocstrings-python ruff
	$(finish)

partial = $(@D).partial
pip = $(partial)/bin/python -m pip install --quiet --disable-pip-version-check

define begin
@rm -rf $(partial) $(@D).old
@set -- $(pythons); if [ -n "$$PYTHON" ]; then set -- "$$PYTHON"; fi; \
for python; do \
	version=$$("$$python" -c "$$CHECK_VERSION" 2>/dev/null) && [ -n "$$version" ] && break; \
	version=; \
done; \
if [ -z "$$version" ] && [ -n "$$PYTHON" ]; then \
	echo "PYTHON=$$PYTHON does not run, or is older than Python $$LEAST." >&2; exit 1; \
elif [ -z "$$version" ]; then \
	echo "No Python $$LEAST or newer was found: install one, or pass PYTHON=/path/to/python." >&2; exit 1; \
elif ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
	echo "$$python has no venv module: install it (on Debian and Ubuntu, the package python$$version-venv)." >&2; exit 1; \
fi; \
echo "Creating $(@D) with Python $$version ..."; \
"$$python" -m venv --prompt $(@D) $(partial)
@printf '%s\n' "$$SETTINGS" > $(partial)/.stamp
@$(pip) 'pip>=22' # older ones do not install this project in place
endef

define finish
@$(partial)/bin/python -c "$$RENAME_IN_SCRIPTS" $(partial) $(@D)
@if [ -e $(@D) ]; then mv $(@D) $(@D).old; fi
@mv $(partial) $(@D)
@rm -rf $(@D).old
endef

define CHECK_VERSION
import os, sys
if sys.version_info >= tuple(map(int, os.environ["LEAST"].split("."))):
    print("%d.%d" % sys.version_info[:2])
endef

# An environment knows its own path in two places: its scripts and pyvenv.cfg.
define RENAME_IN_SCRIPTS
import os, pathlib, sys
partial, final = (pathlib.Path(name).absolute() for name in sys.argv[1:])
for path in [*(partial / "bin").iterdir(), partial / "pyvenv.cfg"]:
    content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    if os.fsencode(partial) in content:
        path.write_bytes(content.replace(os.fsencode(partial), os.fsencode(final)))
endef
export CHECK_VERSION RENAME_IN_SCRIPTS
export LEAST := 3.10
.venv-docs/.stamp: export LEAST := 3.11

# A stamp says what its environment was built for. It is out of date too when something else is
# asked for now, when the checkout has moved, and when the environment's Python no longer runs.
settings = $(strip $(CURDIR) PYTHON=$(PYTHON) $(if $(filter .venv-test,$(1)),TORCH=$(TORCH)))
built_for = $(strip $(shell $(1)/bin/python -c '' 2>/dev/null && cat $(1)/.stamp))
.venv/.stamp .venv-test/.stamp .venv-docs/.stamp: export SETTINGS = $(call settings,$(@D))
ifneq ($(call settings,.venv),$(call built_for,.venv))
.venv/.stamp: FORCE
endif
ifneq ($(call settings,.venv-test),$(call built_for,.venv-test))
.venv-test/.stamp: FORCE
endif
ifneq ($(call settings,.venv-docs),$(call built_for,.venv-docs))
.venv-docs/.stamp: FORCE
endif
