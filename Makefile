# The targets. Each installs what it needs (docs/how-to/testing.md).
#   make run          serve the catalog on http://127.0.0.1:8181/catalog, with data in .icecore/
#   make demo         run PyIceberg and Spark on a temporary catalog, and show each event as it arrives
#   make check        run lint, types, tidy, unit and property tests: about 2 minutes
#   make test         run all tests: about an hour on 2 cores
#   make test-long    run all tests in their long forms, then try small faults: about 4 hours
#   make bench        run the benchmarks
#   make bench-long   run the benchmarks with more and longer rounds
#   make bench-peers  run the benchmarks that compare Icecore with other catalogs
#   make setup        make .venv from the locked requirements; the targets above do this first
#   make lock         update the locked requirements to the newest permitted versions
#   make clean        delete .venv, .tools, .cache and .icecore
.DEFAULT_GOAL := help
.PHONY: help setup run check test test-long demo bench bench-long bench-peers lock clean

BOOT_PYTHON ?= python3
PYTHON := .venv/bin/python

# Containers often set it. Without bytecode, each of the hundreds of processes that the tests start compiles all it imports, for seconds.
unexport PYTHONDONTWRITEBYTECODE

# Quick ones first, so that failures appear early. Three processes, because tests wait: on 2 cores they take 109 s instead of 119 with two. A process
# with its JVM takes up to 1 GB.
QUICK_TESTS := --numprocesses=3 --dist=worksteal tests/tidy tests/unit tests/property
# The log's own tests run on both databases: Debian's Postgres, then the embedded one with all the rest.
LOG_TESTS := $(addprefix tests/integration/test_,verify.py rebuild.py time_travel.py append.py idempotency.py event_store.py \
	stream_queues.py migrations.py follow.py)
# Of how many small faults `make test-long` tries one.
MUTATION_ONE_IN ?= 40
# Files run beside each other, the tests of a file one after the other: a file's tests share its servers. The files that take minutes come
# first, so that no process waits for one of them at the end.
TWO_PROCESSES := --numprocesses=2 --dist=loadfile --no-loadscope-reorder
OTHER_TESTS := tests/acceptance tests/conformance tests/reliability tests/contract tests/integration

help:
	@sed -n 's/^#   //p' Makefile

setup:
	@$(BOOT_PYTHON) -m requirements.environment .venv requirements/dev.lock --project

run: setup
	@exec .venv/bin/icecore serve

# Java and Maven first: the domain's oracle is Iceberg's own Java code. Random tests draw less here than in `make test`, and the mutants that
# only a long random search finds are left to it.
check: setup
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	@$(PYTHON) -m tests.servers.maven > /dev/null
	JAVA_HOME="$$($(PYTHON) -m tests.servers.java)" ICECORE_TEST_ORACLE_SEQUENCES=100 ICECORE_TEST_MACHINE_EXAMPLES=2 ICECORE_TEST_CONTENTIONS=200 \
	  $(PYTHON) -m pytest -q -m "not random_mutants" $(QUICK_TESTS)

# What the later parts need is fetched while the quick parts run; a part whose tools cannot be had fails and says why.
test: setup
	@mkdir -p .cache
	@$(PYTHON) -m tests.servers.maven > /dev/null
	@$(PYTHON) -m tests.servers.prepare > .cache/prepare.log 2>&1 &
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	@$(PYTHON) -c "from tests.servers.postgres import binaries; binaries()"
	ICECORE_TEST_POSTGRES=debian $(PYTHON) -m pytest -q $(TWO_PROCESSES) $(if $(ICECORE_TEST_LONG),tests/integration,$(LOG_TESTS))
	JAVA_HOME="$$($(PYTHON) -m tests.servers.java)" $(PYTHON) -m pytest -q $(QUICK_TESTS)
	$(PYTHON) -m pytest $(TWO_PROCESSES) --durations=20 $(OTHER_TESTS)

test-long:
	@ICECORE_TEST_LONG=1 ICECORE_TEST_ORACLE_SEQUENCES=10000 ICECORE_TEST_MACHINE_EXAMPLES=200 ICECORE_TEST_CONTENTIONS=20000 $(MAKE) test
	$(PYTHON) -m tests.mutation --one-in $(MUTATION_ONE_IN)

demo: setup
	@$(PYTHON) -m demo

bench: setup
	@$(PYTHON) -m benchmarks

bench-long: setup
	@$(PYTHON) -m benchmarks --long

bench-peers: setup
	@$(PYTHON) -m benchmarks.peers

lock: setup
	@$(BOOT_PYTHON) -m requirements.relock

clean:
	rm -rf .cache .tools .venv .icecore
