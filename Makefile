# One verb per target.  Every target sets up what it needs; `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCK := requirements/dev.lock
READY := $(VENV)/.ready
DEMO_LOCK := requirements/demo.lock
DEMO_READY := $(VENV)/.ready-for-the-demo
PACKAGES := $(VENV)/.packages
NATIVE_SOURCES := native/Cargo.toml native/crates.lock native/pyproject.toml $(wildcard native/src/*.rs)
SPARKS := 3.5 4.0 4.1 4.2
PEERS ?= broker client python spark replication pop

# Tests start hundreds of Pythons.  Where the environment wants no compiled files beside the sources,
# they go to .venv: without them each Python takes twice as long to start.
ifdef PYTHONDONTWRITEBYTECODE
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/pycache
endif

.DEFAULT_GOAL := help
.PHONY: help setup native lock demo test coverage check fuzz attack crash soak monitoring test-sparks bench bench-quick bench-peers bench-growth bench-soak bench-profile bench-report interop judge test-browser docs site format clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv from the lock file (done by every other target)

# $(1): a lock file.  On a terminal pip shows how much of each package is there.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "FlintMQ needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@echo "Fetching the $$(grep -c == $(1)) packages of $(1) into $(VENV): $(2)"
	$(BIN)/python -m pip install --require-hashes --requirement $(1)
	$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --editable .
	@touch $@
endef

$(PACKAGES): $(LOCK) pyproject.toml
	$(call install,$(LOCK),all that developers use)

# The compiled kernel is built where cargo is.  Without it, or when that fails, the plain one is used.
BUILD_NATIVE := $(BIN)/python tools/crates_lock.py restore && PATH="$(CURDIR)/$(BIN):$$PATH" \
    MATURIN_PEP517_ARGS=--locked $(BIN)/python -m pip install --quiet --no-build-isolation --no-deps \
    --force-reinstall ./native

$(READY): $(PACKAGES) $(if $(shell command -v cargo),$(NATIVE_SOURCES))
	@if command -v cargo >/dev/null; then \
	    echo "Building the compiled kernel"; \
	    { $(BUILD_NATIVE); } >$(VENV)/native.log 2>&1 || \
	        echo "It cannot be built (see $(VENV)/native.log): the plain one is used"; \
	fi
	@touch $@

native: $(PACKAGES) ## Build and install the compiled kernel (needs cargo)
	@command -v cargo >/dev/null || { echo "cargo is missing; it comes with Rust"; exit 1; }
	$(BUILD_NATIVE)
	@touch $(READY)
	@$(BIN)/flintmq --version

$(DEMO_READY): $(DEMO_LOCK) pyproject.toml
	$(call install,$(DEMO_LOCK),about 600 MB the first time; 456 of them are Spark)

COMPILE := uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --no-header --no-annotate --unsafe-package flintmq --quiet

lock: ## Write the lock files again (needs uv)
	$(COMPILE) --extra dev --output-file $(LOCK) >/dev/null
	printf 'editables\nhatchling\n' | $(COMPILE) - --extra demo --extra jre --constraint $(LOCK) \
	    --output-file $(DEMO_LOCK) >/dev/null

# Where developers have set up everything, the demo needs nothing else.
demo: $(if $(wildcard $(READY)),$(READY),$(DEMO_READY)) ## See it work: a shop on Spark and on threads, watched and checked
	$(BIN)/flintmq demo $(ARGS)

test: $(READY) ## Run the tests
	$(BIN)/python -m pytest -n 3 -m "not heavy and not interop" $(ARGS)

# An older Spark, and everything else from .venv.
build/sparks/%/.ready: requirements/sparks/%.txt $(READY)
	$(PYTHON) -m venv build/sparks/$*
	build/sparks/$*/bin/python -m pip install --quiet --require-hashes --requirement $<
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	    > $$(build/sparks/$*/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/developers.pth
	@touch $@

# pyspark itself leaves sockets open and uses what is deprecated.
test-sparks: $(SPARKS:%=build/sparks/%/.ready) ## Run the tests that hold for every supported Spark, with each of them
	for version in $(SPARKS); do echo "pyspark $$version" && \
	    build/sparks/$$version/bin/python -m pytest -p no:xdist -W ignore::ResourceWarning \
	    -W ignore::DeprecationWarning -W ignore::FutureWarning -W ignore::UserWarning \
	    -W ignore::pytest.PytestUnraisableExceptionWarning tests/spark/versions/test_sparks.py $(ARGS) || exit 1; done

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

crash: $(READY) ## Break the store 10,000 ways, flip 10,000 bits, kill a writer 100 times, masters and slaves 200 times
	$(BIN)/python -m pytest -n 2 -m heavy --timeout 0 tests/crash tests/store $(ARGS)

monitoring: $(READY) ## A real Prometheus scrapes a broker (needs prometheus, of Debian)
	$(BIN)/python -m pytest -m "heavy or not heavy" tests/metrics $(ARGS)

soak: $(READY) ## Simulated groups, outages, reconnects and killed Spark drivers, by the hundred
	$(BIN)/python -m pytest -n 2 -m heavy --timeout 0 tests/client tests/core tests/spark tests/scenarios $(ARGS)

bench: $(READY) ## Measure, and write benchmarks/results/latest.json
	$(BIN)/python -m benchmarks $(ARGS)

bench-quick: $(READY) ## Measure the five most telling ratios in three minutes (needs Java and Maven)
	$(BIN)/python -m benchmarks.quick $(ARGS)

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

judge: $(READY) ## Compare 100,000 fresh decisions on access with RocketMQ's own classes (needs Java and Maven)
	@seed=$${SEED:-$$($(BIN)/python -c 'import secrets; print(secrets.randbelow(10**9))')}; \
	    echo "make judge SEED=$$seed repeats this run"; \
	    FLINTMQ_ACCESS_SEED=$$seed $(BIN)/python -m pytest -p no:xdist -m interop --timeout 900 \
	    tests/interop/test_access_against_rocketmq.py $(ARGS)

test-browser: $(READY) ## Try the console in a real browser (needs Chromium; without it the tests skip)
	$(BIN)/python -m pytest -p no:xdist --timeout 300 tests/console/browser $(ARGS)

docs: $(READY) ## Write the reference pages again
	$(BIN)/python tools/cli_reference.py
	$(BIN)/python tools/reference_pages.py --write

site: $(READY) ## Build the documentation site into build/site: open build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open build/site/index.html"

format: $(READY) ## Format the code and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove .venv and caches
	rm -rf $(VENV) native/target .mypy_cache .pytest_cache .ruff_cache .hypothesis
