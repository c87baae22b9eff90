# Everything a contributor runs. Plain `make` prepares .venv and lists the targets.
#
# Paths stay relative, because make cannot name a target whose path has a space in it.

PYTHON ?= python3
ARGS ?=

VENV := .venv
PY := $(VENV)/bin/python
# Two stages in one environment: the product alone, which is all the demo needs, and the tools.
PRODUCT := $(VENV)/.product
READY := $(VENV)/.ready

# Most tests wait for programs half of the time, so that two workers more than cores are well used.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 2)' 2>/dev/null || echo 2)

# The inner loop: tests that start few processes or none.
QUICK := tests/unit tests/golden tests/schemas tests/structure tests/engine \
  tests/state/test_apply.py tests/state/test_codec.py tests/state/test_routing.py

# The markers of tests that need more than this machine has, or more time.
OTHERS := soak or agents or browser or fleet

# What a step is compared with. Each is left out where it cannot be installed.
PEERS := doit pypyr rust-just go-task-bin luigi dbos langgraph langgraph-checkpoint-sqlite

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := setup
.DELETE_ON_ERROR:
.PHONY: setup help demo fleet-demo quick test test-faults test-agents test-browser test-fleet coverage goldens lint soak mutants bench bench-peers clean stale

# The stamp holds the folder it was made for: an environment that was moved, copied or lost its
# interpreter would quietly test another tree, so it is made again.
ifneq ($(shell test "$$(cat $(PRODUCT) 2>/dev/null)" = "$$(pwd -P)" && $(PY) -c "" 2>/dev/null && echo fit),fit)
$(PRODUCT): stale
endif

# The stamp is written last. Without it whatever lies in .venv is half-made and thrown away; with
# it only pyproject.toml has changed, and installing again is enough.
$(PRODUCT): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "orchestrate needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || true)." >&2; \
	  echo "Name another one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments: its venv module is missing." >&2; \
	  echo "On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@if test "$$(cat $@ 2>/dev/null)" = "$$(pwd -P)" && $(PY) -c "" 2>/dev/null; then rm -f $@; \
	else rm -rf $(VENV) && echo "Making $(VENV) (once, about a minute)" >&2 && $(PYTHON) -m venv $(VENV); fi
	@$(PY) -m pip install --quiet --editable .
	@pwd -P > $@

$(READY): $(PRODUCT)
	@rm -f $@
	@$(PY) -m pip install --quiet --editable '.[dev]'
	@pwd -P > $@

setup: $(READY) ## prepare .venv and list the targets (what plain `make` does)
	@$(MAKE) --no-print-directory help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
	@echo "  ARGS='...' is handed on: make test ARGS='-k include -x'"

demo: $(PRODUCT) ## the loop with a stand-in agent: tests decide, killed and resumed, approved, reported
	@$(PY) demo/demo.py

fleet-demo: $(READY) ## a server and two workers on this computer; a run goes on when a machine is lost (Linux)
	@$(PY) demo/fleet_demo.py

quick: $(READY) ## the tests of a minute: units, goldens, schemas, structure
	@$(PY) -m pytest -n $(WORKERS) -m "not ($(OTHERS) or faults)" $(QUICK) $(ARGS)

test: $(READY) ## run the tests of what each part does
	@$(PY) -m pytest -n $(WORKERS) --dist worksteal -m "not ($(OTHERS) or faults)" $(ARGS)

test-faults: $(READY) ## run the tests of what kills, full disks, races and hostile input do to a run
	@$(PY) -m pytest -n $(WORKERS) --dist worksteal -m "faults and not ($(OTHERS))" $(ARGS)

test-agents: $(READY) ## run the tests with the real agent programs, which npm installs
	@$(PY) -m tests.agents.installing
	@$(PY) -m pytest -n $(WORKERS) -m "agents and not soak" tests/agents $(ARGS)

test-browser: $(READY) ## run the tests of the console in Chromium, and with made-up requests
	@$(PY) -m pip install --quiet --editable '.[browser-tests]' || \
	  echo "schemathesis cannot be installed: tests/serve/test_openapi.py is left out" >&2
	@$(PY) -c 'import schemathesis' 2>/dev/null || left_out=--ignore=tests/serve/test_openapi.py; \
	$(PY) -m pytest -n $(WORKERS) -m "browser and not soak" tests/serve $$left_out $(ARGS)

test-fleet: $(READY) ## run the tests with a real Temporal server, which they start on loopback
	@$(PY) -m pytest -n $(WORKERS) --dist loadfile -m "fleet and not soak" tests/fleet $(ARGS)

coverage: $(READY) ## run the tests and report branch coverage
	@ORCHESTRATE_TESTS_SPAWN=1 $(PY) -m pytest -n auto --cov --cov-report=term $(ARGS)

goldens: $(READY) ## write the golden files anew; read the diff before you commit it
	@$(PY) -m pytest tests/golden --update-goldens $(ARGS)
	@$(PY) -m docs.build

lint: $(READY) ## ruff, formatting, types, and whether schemas and docs are up to date
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(PY) schemas/build.py --check
	@$(PY) -m docs.build --check

soak: $(READY) ## the long run: every test, slow ones and agents too, and many more generated examples
	@HYPOTHESIS_PROFILE=soak ORCHESTRATE_TESTS_SPAWN=1 $(PY) -m pytest -n auto -m "" $(ARGS)

mutants: $(READY) ## break the state, engine and keeper code; do tests notice? (Linux, root)
	@$(PY) -m tests.mutants $(ARGS)

bench: $(READY) ## measure start-up, compile times and runs as ratios
	@$(PY) benchmarks/run.py $(ARGS)
	@$(PY) benchmarks/engine.py

bench-peers: $(READY) ## a step's cost beside other tools; writes the table of the docs
	@test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	@for peer in $(PEERS); do \
	  .venv-peers/bin/python -m pip install --quiet $$peer || echo "$$peer is left out" >&2; done
	@$(PY) benchmarks/peers.py --write $(ARGS)

clean: ## remove .venv, caches and built files; runs under .orchestrate/ stay
	@rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.*
	@find . -name .git -prune -o -type d -name __pycache__ -exec rm -rf {} +
