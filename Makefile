.DEFAULT_GOAL := help
SHELL := /bin/bash
export BACKFILL_JARS_DIR := $(CURDIR)/.cache/jars

BIN := .venv/bin
TESTS := $(BIN)/python build-tools/run_tests.py
ARGS ?=
KILLS ?= 1000
MINUTES ?= 60
OPERATOR_KILLS = $(if $(filter file,$(origin KILLS)),500,$(KILLS))
STORE_KILLS = $(if $(filter file,$(origin KILLS)),200,$(KILLS))
ROWS ?= 20000000
TOPIC_ROWS = $(if $(filter file,$(origin ROWS)),10000000,$(ROWS))
RUNS ?= 5
SEEDS ?= 10000
STRATEGY ?=
SEED ?=
WITH ?=
IMAGE_BUILD ?= build-tools/image_build.sh
LOCK = $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header

help: ## this list
	@echo "usage: make TARGET [ARGS='further pytest arguments'] [KILLS=n] [STRATEGY=name] [MINUTES=n] [SEEDS=n] [ROWS=n] [RUNS=n]"
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-18s %s\n", $$1, $$2}'

setup: ## .venv and Delta's jars from locked, hashed inputs; says what is missing; safe to run again
	@build-tools/setup.sh

demo: setup ## the product on real tables with real live changes, in two to three minutes; STRATEGY: Snapshot (default) or Arrangement
	@$(BIN)/backfill demo $(if $(STRATEGY),--strategy $(STRATEGY))

demo-kafka: setup ## a topic of a real broker into a table, with a producer that goes on writing, in about two minutes
	@$(BIN)/python examples/demo/topic.py $(ARGS)

test: setup ## in 10 to 15 minutes: every test without Spark, of each test file on Spark the first case, and one kill of each strategy
	@$(TESTS) --part first plain control faults spark jobs kills -- $(ARGS)

test-rest: setup ## exactly the cases that `make test` leaves out
	@$(TESTS) --part rest plain control faults spark jobs kills -- $(ARGS)

test-all: setup ## both: all tests but the crash suite, the object stores and the run on a real node
	@$(TESTS) plain control faults spark jobs kills -- $(ARGS)

crash: setup ## kill real drivers of each strategy of tables, or of STRATEGY, KILLS times (1000) each while the source changes
	@BACKFILL_KILLS=$(KILLS) $(TESTS) crash -- -s -k '$(or $(STRATEGY),not SourceSplits)' $(ARGS)

crash-replica: setup ## the same for drivers of a Replica, with a report of their own
	@BACKFILL_KILLS=$(KILLS) $(BIN)/python -m pytest -q -s --junit-xml=build/reports/crash-replica.xml tests/crash -k Replica $(ARGS)

crash-kafka: setup ## the same for drivers of a topic, while producers write; a real broker
	@BACKFILL_KILLS=$(KILLS) $(BIN)/python -m pytest -q -s --junit-xml=build/reports/crash-kafka.xml tests/crash -k SourceSplits $(ARGS)

crash-operator: setup ## kill the operator KILLS times (500) around its writes, while drivers fail and specs change
	@BACKFILL_OPERATOR_KILLS=$(OPERATOR_KILLS) $(BIN)/python -m pytest -q -s --junit-xml=build/reports/crash-operator.xml \
		tests/control_plane/faults/test_killed_operators.py $(ARGS)

crash-stores: setup ## kill real drivers KILLS times (200) in all while they fill a bucket of a real S3 server from another
	@BACKFILL_KILLS=$(STORE_KILLS) $(BIN)/python -m pytest -q -s --junit-xml=build/reports/crash-stores.xml tests/stores/crash $(ARGS)

test-stores: setup ## jobs from bucket to bucket of a real S3 server with faults; compiles it once, which needs go and three minutes
	@$(TESTS) stores -- --ignore=tests/stores/crash $(ARGS)

attack: setup ## let three suites look for holes for MINUTES (60) in all: odd tables, hostile objects, a real terminal
	@$(BIN)/python build-tools/attack.py $(MINUTES) -- $(ARGS)

e2e: setup ## all scenarios on a real node: pods and operators die, objects are missing, many jobs at once; needs a cluster (see docs/kubernetes.md)
	@$(TESTS) e2e -- -s -vv -m 'not pressure' $(ARGS)

e2e-pressure: setup ## the one scenario that fills the disk of a node, on a small one that is made for it: ten minutes; needs root and the kit's cluster
	@$(TESTS) e2e -- -s -vv -m pressure $(ARGS)

e2e-smoke: setup ## the shortest of them: a job with all its commands, one of Arrangement, of Replica and of a topic, an upgrade
	@$(TESTS) e2e -- -s -vv -m smoke $(ARGS)

simulate: setup ## live SEEDS (10000) simulated worlds of each strategy, or of STRATEGY; a failing one is told as a story; SEED: only this one
	@$(BIN)/python build-tools/simulate.py --seeds $(SEEDS) $(if $(STRATEGY),--strategy $(STRATEGY)) $(if $(SEED),--seed $(SEED)) --with '$(WITH)'

mutants: setup ## plant known bugs in a scratch copy, one by one: each must be caught by its named test; ARGS=--list prints them
	@$(BIN)/python build-tools/mutants.py $(ARGS)

rules: setup ## print the rules of the strategies, each with the code and the tests that cite it
	@$(BIN)/python build-tools/rules.py

check: lint types contracts expressions generated subjects ## everything that needs no test run

lint: setup ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: setup ## mypy, strict
	@$(BIN)/mypy

contracts: setup ## the import contracts between the floors
	@$(BIN)/lint-imports --no-cache

expressions: setup ## refuse regular expressions that take more than linear time
	@$(BIN)/python -m pytest -q tests/architecture/expressions

generated: setup ## are the generated files fresh?
	@$(BIN)/python build-tools/generate.py --check

subjects: setup ## do the subjects of commits follow the rule?
	@$(BIN)/python build-tools/commit_subjects.py

audit: setup ## scan the locked packages for known vulnerabilities; needs PyPI's JSON API; ARGS='--ignore-vuln ID' for one without a fix
	@$(BIN)/python build-tools/audit.py $(ARGS)

docs: setup ## write the generated files: the CRD, the field reference, the errors
	@$(BIN)/python build-tools/generate.py

crds: docs ## the same, under the name that operators know

bench: setup ## the main job beside its baselines: ROWS (20 M), RUNS (5); build/bench/latest.json; ARGS="--only strategies"
	@$(BIN)/python tests/benchmarks/run.py --rows $(ROWS) --runs $(RUNS) --out build/bench/latest.json $(ARGS)

bench-kafka: setup ## a topic of a real broker beside a batch read and Structured Streaming: ROWS (10 M), RUNS (5); build/bench/kafka.json
	@$(BIN)/python tests/benchmarks/run.py --only kafka --rows $(TOPIC_ROWS) --runs $(RUNS) --out build/bench/kafka.json $(ARGS)

bench-operator: setup ## the operator alone on one core, against a real API server; build/bench/operator.json
	@$(BIN)/python tests/benchmarks/control_plane.py --out build/bench/operator.json $(ARGS)

lock: setup ## resolve the requirements anew, within the bounds of pyproject.toml
	@$(LOCK) --extra spark --extra cli --extra operator --group dev --upgrade --output-file requirements/dev.txt
	@$(LOCK) --extra spark --extra operator --constraint requirements/dev.txt --output-file requirements/image.txt

image: setup ## the two images, localhost/backfill-operator:dev and localhost/backfill-spark:dev; IMAGE_BUILD: by which command
	@build-tools/image_parts.sh
	@$(IMAGE_BUILD) . localhost/backfill-operator:dev --target operator
	@$(IMAGE_BUILD) . localhost/backfill-spark:dev --target spark

chart: ## the chart as one file, build/chart/backfill-operator-….tgz; needs helm
	@helm package charts/backfill-operator --destination build/chart

clean: ## remove what tests and tools leave behind; .venv and the jars stay
	@rm -rf build dist spark-warehouse metastore_db derby.log .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find crds operator spark_app tests build-tools -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help setup demo demo-kafka test test-rest test-all test-stores crash crash-replica crash-operator crash-kafka crash-stores attack e2e e2e-pressure e2e-smoke simulate mutants rules check lint types contracts expressions generated audit docs crds bench bench-kafka bench-operator lock image chart clean
