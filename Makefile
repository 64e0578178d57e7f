# Everything the project needs is set up below this folder, by `make` itself; see CONTRIBUTING.md.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := UV_CACHE_DIR=$(CURDIR)/.cache/uv $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt
N ?= 200000
SECONDS ?= 60
SEED ?= 1
unexport PYTHONDONTWRITEBYTECODE  # hundreds of processes are started: each would compile whatever it imports

.PHONY: help demo test lint bytecode pytest cluster bench chaos difftest recycletest mutations fuzz lock clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

$(BIN)/uv:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==0.13.7

$(VENV)/core: $(BIN)/uv pyproject.toml constraints.txt
	$(UV) -e .
	@touch $@

$(VENV)/full: $(VENV)/core
	$(UV) -e '.[spark,history,gateway,console,test,lists,fastapi,asgi,flask,django,grpc,faststream,fastmcp,kafka,otel,chaos,bench,dev]'
	@touch $@

$(VENV)/browser: $(VENV)/full tests/browser/package-lock.json
	-$(BIN)/python -m tests.browser
	@touch $@

$(VENV)/prometheus: $(VENV)/full
	-$(BIN)/python -m tests.prometheus
	@touch $@

$(VENV)/sshd: $(VENV)/full
	-$(BIN)/python -m tests.sshd
	@touch $@

demo: $(VENV)/core ## start a fabric, break it under load, and watch no request fail
	$(BIN)/authfabric demo

lint: $(VENV)/full ## ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bytecode: $(VENV)/full  # once, rather than in every process that shares the tests
	-@$(BIN)/python -m pytest --collect-only -q > /dev/null 2>&1

# Tracebacks are Python's own: for others pytest parses sources, at which CPython 3.11 fails now and then where there are
# threads ("AST constructor recursion depth mismatch"), and all tests end.  Those run again alone have pytest's.
pytest: bytecode $(VENV)/browser $(VENV)/prometheus $(VENV)/sshd
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --tb=native || { [ $$? = 1 ] && $(BIN)/python -m tests.alone; }

test: $(VENV)/full $(VENV)/browser $(VENV)/prometheus $(VENV)/sshd ## everything that must hold before a change lands
	@$(MAKE) --no-print-directory -j2 lint pytest

cluster: $(VENV)/full ## run the jobs on a Spark cluster whose processes are killed, and restart a server twenty times
	$(BIN)/python -m pytest -m cluster

bench: $(VENV)/full ## run every benchmark, keep its JSON, write docs/performance.md
	$(BIN)/python -m benchmarks

chaos: $(VENV)/full ## strike a fabric with random faults for ten minutes, and check that it kept its promises; SEED chooses them
	$(BIN)/authfabric chaos --seed $(SEED) --minutes 10

difftest: $(VENV)/full ## compare engine, reference and py-abac on N random cases
	$(BIN)/python -m tests.pdp.difftest $(N)

recycletest: $(VENV)/full ## compare what caches infer with the reference, N times, through random changes of policies
	$(BIN)/python -m tests.sdp_cache.difftest $(N)

mutations: $(VENV)/full ## take each defence of docs/security.md away, and see that its test fails; WORDS chooses some
	$(BIN)/python -m tests.mutations $(WORDS)

fuzz: $(VENV)/full ## send strangers' bytes to whatever reads them, each target for SECONDS (Linux); TARGETS chooses some
	$(UV) -e '.[fuzz]'
	$(BIN)/python -m tests.fuzz $(SECONDS) $(TARGETS)

lock: $(BIN)/uv ## choose the newest versions that pyproject.toml admits
	UV_CACHE_DIR=$(CURDIR)/.cache/uv $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --upgrade \
	    --no-header --no-annotate --no-emit-index-url -o constraints.txt pyproject.toml

clean: ## remove what make has set up
	rm -rf $(VENV) .cache build dist
