.DEFAULT_GOAL := help
SHELL := /bin/bash
export BACKFILL_JARS_DIR := $(CURDIR)/.cache/jars
PY := .venv/bin/python
KILLS ?= 1000
ROWS ?= 20000000
RUNS ?= 3

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

setup: ## .venv and jars, from locked and hashed inputs; safe to run again
	@build-tools/setup.sh

demo: setup ## the product on real tables with real live changes, in about two minutes
	@.venv/bin/backfill demo

test: setup ## all tests but the crash suite
	@$(PY) -m pytest tests -q --ignore=tests/crash --ignore=tests/benchmarks $(ARGS)

test-core: setup ## the rules alone; seconds
	@$(PY) -m pytest tests/core tests/simulation tests/architecture tests/cli -q

test-spark: setup ## the hands on real Delta tables
	@$(PY) -m pytest tests/spark -q

crash: setup ## kill the real driver KILLS times (1000)
	@BACKFILL_KILLS=$(KILLS) $(PY) -m pytest tests/crash -q -s

check: setup lint types contracts generated ## everything that needs no test run

lint: setup ## ruff
	@.venv/bin/ruff check . && .venv/bin/ruff format --check -q .

types: setup ## mypy, strict
	@.venv/bin/mypy

contracts: setup ## import contracts between the floors
	@.venv/bin/lint-imports --no-cache

generated: setup ## are generated files fresh?
	@$(PY) build-tools/generate.py --check

docs: setup ## write what is generated: docs/errors.md, docs/fields.md, crds/backfills.yaml
	@$(PY) build-tools/generate.py

bench: setup ## the main job beside its baselines; ROWS, RUNS
	@$(PY) tests/benchmarks/run.py --rows $(ROWS) --runs $(RUNS) --out build/bench/latest.json

.PHONY: help setup demo test test-core test-spark crash check lint types contracts generated docs bench
