# Two commands do everything on a fresh machine with git, make and Python >= 3.11: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test long lint bench format servers clean clean-kernels

demo: .venv/.core
	$(BIN)/onlinehash demo

# Tests start hundreds of processes; these shall find bytecode, also where somebody said that none is to be written.
TESTS := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

test: .venv/.dev
	$(TESTS)

# What `make test` leaves out, as clusters and many kills take long; and some of its tests with many more crashes, steps and seconds.
long: .venv/.dev
	ONLINEHASH_LONG=1 $(TESTS) -m 'long or thorough'

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/.dev
	$(BIN)/python benchmarks/learn.py
	$(BIN)/python benchmarks/features.py
	$(BIN)/python benchmarks/cold_start.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/encode.py
	$(BIN)/python benchmarks/flat.py --sizes 1e6
	$(BIN)/python benchmarks/multi_index.py --sizes 1e6
	$(BIN)/python benchmarks/large.py --n 1e7
	$(BIN)/python benchmarks/refresh.py --n 1e5 --bits 4 --refreshes 3 --repeats 1
	$(BIN)/python benchmarks/live.py --n 1e5
	$(BIN)/python benchmarks/beyond_memory.py --n 1e5
	$(BIN)/python benchmarks/policies.py --steps 100 --seeds 1
	$(BIN)/python benchmarks/over_http.py peak
	$(BIN)/python benchmarks/over_http.py load
	$(BIN)/python benchmarks/over_http.py lag
	$(BIN)/python benchmarks/ranking.py --n 1e5 --queries 200 --points 10000 --rows 1000
	$(BIN)/python benchmarks/postgres.py --n 1e5 --queries 20 --items 2e4
	$(BIN)/python benchmarks/milvus.py --sizes 2e4
	$(BIN)/python benchmarks/bulk.py
	$(BIN)/python benchmarks/consume.py
	$(BIN)/python benchmarks/parallel_learning.py models
	$(BIN)/python benchmarks/plan.py --n 1e7 --live 1e5

# What tests of the page, of docs/http.md and of docs/scale-out.md need beside Python: a browser, curl, PostgreSQL and
# Redis. Where this cannot install them, those tests are skipped.
servers:
	@command -v chromium >/dev/null && command -v curl >/dev/null && command -v redis-server >/dev/null && \
	  { command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; } || { \
	  if [ "$$(id -u)" = 0 ]; then sudo=; else sudo='sudo -n'; fi; \
	  $$sudo apt-get update -qq && $$sudo env DEBIAN_FRONTEND=noninteractive \
	    apt-get install -y -qq chromium curl postgresql redis-server >/dev/null; }

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip

.venv/.core: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[plot,serve]'
	touch $@

.venv/.dev: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ .venv/.core

# Kernels are compiled from several files, and Numba's cache notices a change in only one of them.
clean-kernels:
	find src -name '*.nb[ic]' -delete

clean: clean-kernels
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -exec rm -rf {} +
