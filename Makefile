# Headway's front door. Each command below does all that it needs first; `make help` lists them.

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local

.DEFAULT_GOAL := help
.PHONY: help deps deps-arm build demo test python-test wheel sanitize fuzz conformance bench test-arm cuda cuda-test \
  cuda-sanitize install format clean

help:  ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps:  ## Install the Debian packages that building and testing need
	@tools/install_packages.sh g++ cmake ninja-build ccache pkg-config python3 libhwy-dev libgtest-dev \
	  nlohmann-json3-dev libsentencepiece-dev libzip-dev libcli11-dev

deps-arm: deps
	@tools/install_packages.sh g++-aarch64-linux-gnu qemu-user googletest

build: deps  ## Build the library, the examples and the tests
	@cmake --preset release
	@cmake --build --preset release -j $(JOBS)

demo: deps  ## Translate a sentence, see what its words look at, write a page with every head
	@cmake --preset release > /dev/null
	@cmake --build --preset release -j $(JOBS) --target headway_program
	@tools/demo.sh

test: build  ## Build and run all tests, on every instruction set that this machine has
	@ctest --preset release -j $(JOBS) -LE cuda
	@$(MAKE) --no-print-directory python-test

python-test: build  ## Install the Python package into a virtual environment of its own and run its tests
	@tools/install_packages.sh python3-venv python3-dev
	@JOBS=$(JOBS) tools/test_python.sh

wheel: build  ## Build the Python package: a source distribution and a wheel, in build/wheels
	@tools/install_packages.sh python3-venv python3-dev
	@JOBS=$(JOBS) tools/make_wheel.sh

sanitize: deps  ## Run a reduced set of tests under Address-, UndefinedBehavior- and ThreadSanitizer
	@for preset in asan tsan; do \
	  cmake --preset $$preset && cmake --build --preset $$preset -j $(JOBS) \
	    && ctest --preset $$preset -j $(JOBS) || exit 1; \
	done

fuzz: deps  ## Feed a million broken files to the readers of safetensors and of JSON each, under sanitizers
	@tools/install_packages.sh clang libclang-rt-14-dev
	@cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DHEADWAY_BUILD_FUZZ=ON -DHEADWAY_BUILD_TESTS=OFF \
	  -DHEADWAY_BUILD_EXAMPLES=OFF
	@cmake --build build/fuzz -j $(JOBS) --target run_safetensors_fuzz run_json_fuzz

test-arm: deps-arm  ## Cross-build for 64-bit ARM and run a reduced set of tests under qemu
	@cmake --preset arm64
	@cmake --build --preset arm64 -j $(JOBS)
	@ctest --preset arm64 -j $(JOBS)

conformance: deps  ## Compare with PyTorch, Transformers, CTranslate2 and sacreBLEU; run the node tests of ONNX
	@tools/install_packages.sh python3-venv python3-dev
	@JOBS=$(JOBS) tools/run_conformance.sh

bench: deps  ## Measure Headway beside PyTorch and others; writes docs/benchmark*.json, their tables and a chart
	@tools/install_packages.sh python3-venv python3-dev
	@JOBS=$(JOBS) bench/run.sh

cuda: deps  ## Build libheadway_cuda.so and its tests (needs nvcc); where there is a GPU, `make cuda-test` runs them
	@command -v nvcc > /dev/null || { echo "make cuda: nvcc is not on the PATH; install the CUDA toolkit" >&2; exit 1; }
	@cmake --preset release -DHEADWAY_BUILD_CUDA=ON
	@cmake --build --preset release -j $(JOBS) --target headway_cuda headway_cuda_tests > build/release/cuda.log 2>&1 \
	  || { grep -v '^ptxas info' build/release/cuda.log | tail -40; exit 1; }
	@tools/check_cuda_resources.py build/release/cuda.log

cuda-test: cuda  ## Run the tests of the CUDA library; without a GPU they skip and say so
	@ctest --preset release -j 1 -L cuda

cuda-sanitize: cuda  ## Run the tests of the CUDA library under the tools of compute-sanitizer; needs a GPU
	@tools/cuda_sanitize.sh

install: build  ## Install into PREFIX (default /usr/local)
	@cmake --install build/release --prefix $(PREFIX)

format:  ## Format all tracked C++ sources with clang-format
	@git ls-files '*.h' '*.cpp' | xargs -r clang-format -i

clean:  ## Remove everything that was built
	@rm -rf build
