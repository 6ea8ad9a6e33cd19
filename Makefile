# One verb per target.  Every target sets up what it needs; `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCK := requirements/dev.lock
READY := $(VENV)/.ready
PEERS ?= broker client python spark

.DEFAULT_GOAL := help
.PHONY: help setup lock demo test coverage check fuzz attack crash soak bench bench-peers bench-growth bench-soak bench-profile bench-report interop docs format clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv from the lock file (done by every other target)

$(READY): $(LOCK) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "FlintMQ needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement $(LOCK)
	$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --editable .
	@touch $@

lock: ## Write the lock file again (needs uv)
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-emit-find-links --no-header --no-annotate \
	    --unsafe-package flintmq --output-file $(LOCK)

demo: $(READY) ## See it work: a shop on Spark and on threads, watched and checked
	$(BIN)/flintmq demo $(ARGS)

test: $(READY) ## Run the tests
	$(BIN)/python -m pytest -n 3 -m "not heavy and not interop" $(ARGS)

coverage: $(READY) ## Run the tests and show which branches of the lower floors they miss
	$(BIN)/coverage run -m pytest -q -m "not heavy and not interop" $(ARGS)
	$(BIN)/coverage report --show-missing --skip-covered \
	    --include "src/flintmq/protocol/*,src/flintmq/core/*,src/flintmq/store/*"

check: $(READY) ## Lint, format check and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fuzz: $(READY) ## Feed every decoder up to 200,000 hostile inputs, with a limit of CPU for each
	FLINTMQ_FUZZ_EXAMPLES=200000 $(BIN)/python -m pytest -n 2 --timeout 0 tests/fuzz $(ARGS)

attack: $(READY) ## Let hostile peers at our servers and clients for ten minutes, and see what it costs
	$(BIN)/python -m pytest -p no:xdist -m heavy --timeout 120 --session-timeout 600 tests/attack $(ARGS)

crash: $(READY) ## Break the store 10,000 ways, flip 10,000 bits, kill a writer 100 times
	$(BIN)/python -m pytest -n 2 -m heavy --timeout 0 tests/crash tests/store $(ARGS)

soak: $(READY) ## Simulated groups, outages, reconnects and killed Spark drivers, by the hundred
	$(BIN)/python -m pytest -n 2 -m heavy --timeout 0 tests/client tests/core tests/spark tests/scenarios $(ARGS)

bench: $(READY) ## Measure, and write benchmarks/results/latest.json
	$(BIN)/python -m benchmarks $(ARGS)

bench-peers: $(READY) ## Measure beside RocketMQ, Kafka, Redis and NATS in one run (needs Java and Maven)
	for peer in $(PEERS); do $(BIN)/python -m benchmarks.peers.$$peer $(ARGS) || exit 1; done

bench-growth: $(READY) ## Measure what a message costs when there is much of something
	$(BIN)/python -m benchmarks.growth $(ARGS)

bench-soak: $(READY) ## Run for ten minutes and look whether anything grows
	$(BIN)/python -m benchmarks.soak $(ARGS)

bench-profile: $(READY) ## See where our CPU goes under the loads of bench-peers (needs Java and Maven)
	$(BIN)/python -m benchmarks.peers.profile $(ARGS)

bench-report: $(READY) ## Write docs/benchmarks.md again from the newest results
	$(BIN)/python -m benchmarks.report

interop: $(READY) ## Try ourselves against the real RocketMQ (needs Java and Maven)
	$(BIN)/python -m pytest -p no:xdist -m interop --timeout 900 $(ARGS)

docs: $(READY) ## Write the reference pages again
	$(BIN)/python tools/cli_reference.py
	$(BIN)/python tools/reference_pages.py --write

format: $(READY) ## Format the code and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove .venv and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
