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
SWITCHES ?= 20
ROWS ?= 20000000
TOPIC_ROWS = $(if $(filter file,$(origin ROWS)),10000000,$(ROWS))
RUNS ?= 5
SEEDS ?= 10000
STRATEGY ?=
SEED ?=
WITH ?=
IMAGE_BUILD ?= build-tools/image_build.sh
IMAGE_EXPORT ?= build-tools/image_export.sh
VERSION ?=
REGISTRY ?=
LOCK = $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header

help: ## this list
	@echo "usage: make TARGET [ARGS='further pytest arguments'] [KILLS=n] [STRATEGY=name] [MINUTES=n] [SEEDS=n] [ROWS=n] [RUNS=n]"
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-18s %s\n", $$1, $$2}'

setup: ## create .venv and fetch Delta's jars from locked, hashed inputs; report missing tools; safe to run again
	@build-tools/setup.sh

demo: setup ## show the product on real tables with live changes, in two to three minutes; STRATEGY: Snapshot (default), Arrangement, Replica or InPlace
	@$(BIN)/backfill demo $(if $(STRATEGY),--strategy $(STRATEGY))

demo-kafka: setup ## copy a topic of a real broker into a table while a producer keeps writing, in about two minutes
	@$(BIN)/python examples/demo/topic.py $(ARGS)

demo-switch: setup ## move a live writer from a table to its copy and back, in about three minutes
	@$(BIN)/python examples/demo/switch.py $(ARGS)

test: setup ## run every test without Spark, the first case of each test file on Spark, and one kill of each strategy, in 10 to 15 minutes
	@$(TESTS) --part first plain core control reconcile faults spark jobs -- $(ARGS)

test-rest: setup ## run exactly the cases that `make test` skips
	@$(TESTS) --part rest plain core control reconcile faults spark jobs -- $(ARGS)

test-all: setup ## run both: all tests except the crash suite, the object stores and the run on a real node
	@$(TESTS) plain core control reconcile faults spark jobs -- $(ARGS)

crash: setup ## kill real drivers of each table strategy, or of STRATEGY, KILLS times (1000) each while the source changes
	@BACKFILL_KILLS=$(KILLS) $(TESTS) crash -- -s -k '$(or $(STRATEGY),not SourceSplits)' $(ARGS)

crash-replica: setup ## the same for drivers of a Replica, with a separate report
	@BACKFILL_KILLS=$(KILLS) $(BIN)/python -m pytest -q -s --junit-xml=build/reports/crash-replica.xml tests/crash -k Replica $(ARGS)

crash-kafka: setup ## the same for drivers of a topic, while producers write; a real broker
	@BACKFILL_KILLS=$(KILLS) $(BIN)/python -m pytest -q -s --junit-xml=build/reports/crash-kafka.xml tests/crash -k SourceSplits $(ARGS)

crash-operator: setup ## kill the operator KILLS times (500) around its writes, while drivers fail and specs change
	@BACKFILL_OPERATOR_KILLS=$(OPERATOR_KILLS) $(BIN)/python -m pytest -q -s --junit-xml=build/reports/crash-operator.xml \
		tests/control_plane/faults/test_killed_operators.py $(ARGS)

crash-switches: setup ## switch over and undo SWITCHES times (20) in total, with kills, while two engines write; prints how long writers waited
	@BACKFILL_SWITCHES=$(SWITCHES) $(BIN)/python -m pytest -q -s --junit-xml=build/reports/crash-switches.xml tests/kills/test_many_switches.py $(ARGS)

crash-stores: setup ## kill real drivers KILLS times (200) in total while they copy between two buckets of a real S3 server
	@BACKFILL_KILLS=$(STORE_KILLS) $(BIN)/python -m pytest -q -s --junit-xml=build/reports/crash-stores.xml tests/stores/crash $(ARGS)

test-stores: setup ## run jobs between buckets of a real S3 server with faults; compiles the server once, which needs go and three minutes
	@$(TESTS) stores -- --ignore=tests/stores/crash $(ARGS)

test-metastore: setup ## test table names and their flips on a real Hive metastore, in three minutes; fetches its jars once (130 MB)
	@$(TESTS) metastore -- $(ARGS)

test-monitoring: setup ## test alerts and dashboards with a real Prometheus, in a minute; compiles it once, which needs go
	@$(TESTS) monitoring -- $(ARGS)

test-kueue: setup ## test queues with a real Kueue, and waits with kstatus itself, in a minute or two; compiles both once, which needs go and three minutes
	@PYTHONPATH=tests $(BIN)/python -m support.kueue.build
	@PYTHONPATH=tests $(BIN)/python -m support.gitops.own_kstatus
	@$(BIN)/python -m pytest -q --junit-xml=build/reports/kueue.xml tests/control_plane/launches/test_queues.py tests/control_plane/gitops/test_health.py \
		-k '[kueue] or ARealKueue or own_code' $(ARGS)

attack: setup ## search for faults with three suites for MINUTES (60) in total: unusual tables, hostile objects, a real terminal
	@$(BIN)/python build-tools/attack.py $(MINUTES) -- $(ARGS)

e2e: setup ## run all scenarios on a real node: pods and operators die, objects are missing, many jobs at once; needs a cluster (see docs/kubernetes.md)
	@$(TESTS) e2e -- -s -vv -m 'not pressure and not release' $(ARGS)

e2e-pressure: setup ## fill the disk of a small node that is created for this scenario, in ten minutes; needs root and the kit's cluster
	@$(TESTS) e2e -- -s -vv -m pressure $(ARGS)

e2e-release: setup ## install a release of this checkout from a real registry, on a node of its own, and upgrade an older commit while a job runs; needs root and the kit's cluster
	@$(TESTS) e2e -- -s -vv -m release $(ARGS)

e2e-smoke: setup ## run the shortest scenarios: a job with all its commands, jobs of Arrangement, of Replica and of a topic, an upgrade
	@$(TESTS) e2e -- -s -vv -m smoke $(ARGS)

simulate: setup ## run SEEDS (10000) simulated worlds of each strategy, or of STRATEGY, and print a failing one step by step; SEED: only this seed
	@$(BIN)/python build-tools/simulate.py --seeds $(SEEDS) $(if $(STRATEGY),--strategy $(STRATEGY)) $(if $(SEED),--seed $(SEED)) --with '$(WITH)'

mutants: setup ## plant known bugs in a scratch copy, one by one; the test of each bug must catch it; ARGS=--list prints them
	@$(BIN)/python build-tools/mutants.py $(ARGS)

rules: setup ## print the rules of the strategies, each with the code and the tests that cite it
	@$(BIN)/python build-tools/rules.py

check: lint types contracts expressions generated subjects ## run all checks that need no test run

lint: setup ## check rules and format with ruff
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: setup ## check types with mypy, strict
	@$(BIN)/mypy

contracts: setup ## check the import contracts between the layers
	@$(BIN)/lint-imports --no-cache

expressions: setup ## refuse regular expressions that take more than linear time
	@$(BIN)/python -m pytest -q tests/architecture/expressions

generated: setup ## check that the generated files are current
	@$(BIN)/python build-tools/generate.py --check

subjects: setup ## check the subjects of commits
	@$(BIN)/python build-tools/commit_subjects.py

audit: setup ## scan the locked packages for known vulnerabilities; needs PyPI's JSON API; ARGS='--ignore-vuln ID' for one without a fix
	@$(BIN)/python build-tools/audit.py $(ARGS)

docs: setup ## write the generated files: the CRD, the field reference, the errors
	@$(BIN)/python build-tools/generate.py

workflows: ## check the workflows of GitHub with actionlint, which is compiled from its Go module once; needs go
	@build-tools/workflows.sh

site: setup ## build the documentation as a site with search into build/site; needs npm once
	@$(BIN)/python build-tools/site/build.py $(ARGS)

crds: docs ## the same, under the usual name for operators

bench: setup ## measure the main job against its baselines: ROWS (20 M), RUNS (5); build/bench/latest.json; ARGS="--only strategies"
	@$(BIN)/python tests/benchmarks/run.py --rows $(ROWS) --runs $(RUNS) --out build/bench/latest.json $(ARGS)

bench-kafka: setup ## measure a topic of a real broker against a batch read and Structured Streaming: ROWS (10 M), RUNS (5); build/bench/kafka.json
	@$(BIN)/python tests/benchmarks/run.py --only kafka --rows $(TOPIC_ROWS) --runs $(RUNS) --out build/bench/kafka.json $(ARGS)

bench-stores: setup ## measure copies from bucket to bucket against s5cmd and a plain Delta write: RUNS (5); ARGS="--objects 200 --kib 1024"; build/bench/stores.json
	@$(BIN)/python tests/benchmarks/stores.py --runs $(RUNS) $(ARGS)

bench-metrics: setup ## measure a scrape of the operator with 10,000 Backfills: size, time, memory; build/bench/job_metrics.json
	@$(BIN)/python tests/benchmarks/job_metrics.py --out build/bench/job_metrics.json $(ARGS)

bench-operator: setup ## measure only the operator, on one core with a real API server; build/bench/operator.json
	@$(BIN)/python tests/benchmarks/control_plane.py --out build/bench/operator.json $(ARGS)

lock: setup ## resolve the requirements again, within the bounds of pyproject.toml
	@$(LOCK) --extra spark --extra cli --extra ui --extra operator --group dev --upgrade --output-file requirements/dev.txt
	@$(LOCK) --extra spark --extra operator --constraint requirements/dev.txt --output-file requirements/image.txt

image: setup ## build the images localhost/backfill-operator:dev and localhost/backfill-spark:dev; IMAGE_BUILD: the build command
	@build-tools/image_parts.sh
	@$(IMAGE_BUILD) . localhost/backfill-operator:dev --target operator
	@$(IMAGE_BUILD) . localhost/backfill-spark:dev --target spark

release: setup ## build packages, images, chart, bills of materials and checksums into dist/VERSION; VERSION, REGISTRY; publishes nothing
	@$(BIN)/python build-tools/release/make.py '$(VERSION)' '$(REGISTRY)' --build '$(IMAGE_BUILD)' --export '$(IMAGE_EXPORT)'

chart: ## package the chart into build/chart/backfill-operator-….tgz; needs helm
	@helm package charts/backfill-operator --destination build/chart

clean: ## remove the output of tests and tools; .venv and the jars stay
	@rm -rf build dist spark-warehouse metastore_db derby.log .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find crds operator spark_app tests build-tools -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help setup demo demo-kafka demo-switch test test-rest test-all test-metastore test-monitoring test-kueue test-stores crash crash-replica crash-operator crash-kafka crash-stores crash-switches attack e2e e2e-pressure e2e-release e2e-smoke simulate mutants rules check lint types contracts expressions generated audit docs site workflows crds bench bench-kafka bench-stores bench-metrics bench-operator lock image release chart clean
