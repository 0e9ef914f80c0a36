# Every command a person or CI needs. Each does its own set-up; everything it makes lies in .venv and build/.
#
#   make demo     trains a small Llama in one process, then on 2 ranks after adding the one line
#   make test     C++ tests, layers, golden IR tests, Python tests
#   make bench    the benchmarks (minutes)
#   make lint     formatters in check mode, ruff, mypy, layers        make format   formats in place
#   make tidy     clang-tidy over the core (slow)                     make clean    removes build/ and .venv
#
# Variables: PYTHON (the interpreter, default python3); TORCH (what pip installs when PYTHON has no torch >= 2.11, options allowed);
# WORKERS (parallel pytest processes); PYTEST_ARGS; WERROR=OFF (a compiler this was never built with may know new warnings).

PYTHON ?= python3
TORCH ?= torch==2.13.0
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
WORKERS ?= 2
WERROR ?= ON
PYTEST_ARGS ?=
PY := .venv/bin/python
WHEEL_BUILD := build/wheel

# One thread a process: the tests start several, and results then do not depend on the machine.
TEST_ENV := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false

.PHONY: demo test bench lint format tidy clean install FORCE
.DEFAULT_GOAL := test

# --- set-up --------------------------------------------------------------------------------------------------------------------

.venv/.ready: tools/bootstrap.py tools/requirements-test.txt
	$(PYTHON) tools/bootstrap.py --torch "$(TORCH)"
	@touch $@

.venv/.lint: .venv/.ready tools/requirements-lint.txt
	$(PY) -m pip install --disable-pip-version-check -q -r tools/requirements-lint.txt
	@touch $@

SOURCES := $(shell find cpp python tools -type f \( -name '*.cc' -o -name '*.h' -o -name '*.py' -o -name '*.pyi' -o -name py.typed \)) \
           CMakeLists.txt pyproject.toml
SHIPPED := $(filter-out tools/%.py %_test.cc,$(SOURCES))

# The list of files itself: a file taken away must cause an installation too.
build/sources.txt: FORCE
	@mkdir -p build
	@echo "$(sort $(SHIPPED)) $(WERROR)" | cmp -s - $@ || echo "$(sort $(SHIPPED)) $(WERROR)" > $@

# The wheel's build directory is kept, so that only what changed is compiled, and the C++ tests are a further target of it: they test
# the very objects that are shipped. --no-build-isolation: against the nanobind in .venv; --no-deps: torch is there already.
build/.installed: .venv/.ready build/sources.txt $(SHIPPED)
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PY) -m pip install --disable-pip-version-check --no-build-isolation --no-deps -q \
	  -C build-dir=$(WHEEL_BUILD) -C cmake.define.AUTOSP_TESTS=ON -C cmake.define.AUTOSP_WERROR=$(WERROR) .
	@touch $@

install: build/.installed

# --- what a person asks for ----------------------------------------------------------------------------------------------------

# KINETO_LOG_LEVEL: the memory meter is a profiler, which would announce itself.
demo: install
	KINETO_LOG_LEVEL=99 $(PY) examples/train_llama.py

test: install
	cmake --build $(WHEEL_BUILD) --target autosp_tests --parallel $(JOBS)
	ctest --test-dir $(WHEEL_BUILD) --output-on-failure --progress --parallel $(JOBS)
	$(PY) tools/check_layers.py
	$(TEST_ENV) $(PY) -m pytest tests -m "not gpu and not slow" -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

bench: install
	@for script in benchmarks/bench_*.py; do echo "== $$script"; $(TEST_ENV) $(PY) "$$script" || exit 1; done

CPP_FILES := $(filter %.cc %.h,$(SOURCES))
CLANG_FORMAT := $(PY) -c "import clang_format; clang_format.clang_format()"

lint: .venv/.lint
	$(CLANG_FORMAT) --dry-run -Werror $(CPP_FILES)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) tools/check_layers.py

format: .venv/.lint
	$(CLANG_FORMAT) -i $(CPP_FILES)
	$(PY) -m ruff check --fix -q . || true
	$(PY) -m ruff format .

tidy: .venv/.ready
	cmake --preset dev
	clang-tidy -p build/dev --quiet $(filter-out cpp/bindings/%,$(filter %.cc,$(CPP_FILES)))

clean:
	rm -rf build .venv dist
