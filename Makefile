# The commands of a checkout. Each one builds what it needs first; `make help` lists them.

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local

.DEFAULT_GOAL := help
.PHONY: help deps deps-arm deps-clang build demo examples test python-test wheel sanitize clang tidy fuzz conformance bench \
  test-arm cuda cuda-test cuda-sanitize install format format-check check clean

help:  ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps:  ## Install the Debian packages that building and testing need
	@tools/install_packages.sh g++ cmake ninja-build ccache pkg-config python3 libhwy-dev libgtest-dev \
	  nlohmann-json3-dev libsentencepiece-dev libzip-dev libpcre2-dev libutf8proc-dev libcli11-dev libsndfile1-dev \
	  libkissfft-dev libpng-dev libjpeg-dev libopenmpi-dev openmpi-bin

deps-arm: deps
	@tools/install_packages.sh g++-aarch64-linux-gnu qemu-user googletest

deps-clang: deps
	@tools/install_packages.sh clang clang-format clang-tidy clang-tools libclang-rt-14-dev

build: deps  ## Build the library, the examples and the tests
	@cmake --preset release
	@cmake --build --preset release -j $(JOBS)

demo: deps  ## Translate a sentence, see what its words look at, write a page with every head
	@cmake --preset release > /dev/null
	@cmake --build --preset release -j $(JOBS) --target headway_program
	@tools/demo.sh

examples: deps  ## Run every example with its shipped model: sounds, pictures, videos, items; writes docs/gallery
	@cmake --preset release > /dev/null
	@cmake --build --preset release -j $(JOBS) --target headway_program example_programs
	@examples/run_all.sh docs/gallery

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

clang: deps-clang  ## Build everything with clang, warnings as errors, and run the quick tests
	@cmake --preset clang
	@cmake --build --preset clang -j $(JOBS)
	@ctest --preset clang -j $(JOBS)

tidy: deps-clang  ## Run clang-tidy, with the checks of .clang-tidy, over the libraries and the program
	@cmake --preset release > /dev/null
	@cmake --build --preset release -j $(JOBS) --target headway_media > /dev/null
	@JOBS=$(JOBS) tools/tidy.sh

FUZZ_SECONDS ?= 20
FUZZ_RUNS ?= 0
fuzz: deps-clang  ## Feed broken files to each reader for 20 seconds (FUZZ_SECONDS) or FUZZ_RUNS times, under sanitizers
	@cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DHEADWAY_BUILD_FUZZ=ON -DHEADWAY_BUILD_TESTS=OFF \
	  -DHEADWAY_BUILD_EXAMPLES=OFF -DHEADWAY_FUZZ_SECONDS=$(FUZZ_SECONDS) -DHEADWAY_FUZZ_RUNS=$(FUZZ_RUNS)
	@cmake --build build/fuzz -j $(JOBS) --target fuzz_targets
	@cmake --build build/fuzz -j $(JOBS) --target run_fuzz

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

CLANG_FORMAT ?= clang-format
format:  ## Format all tracked C++ sources with clang-format 14; kernels for CUDA (.cu, .cuh) are laid out by hand
	@git ls-files '*.h' '*.cpp' | xargs -r $(CLANG_FORMAT) -i

format-check:  ## Fail where `make format` would change a file
	@command -v $(CLANG_FORMAT) > /dev/null || tools/install_packages.sh clang-format
	@CLANG_FORMAT=$(CLANG_FORMAT) tools/check_format.sh

check: format-check  ## The checks that take seconds: format, layers, links and translations of the documents
	@tools/check_layers.py
	@python3 tools/check_documents.py --texts

clean:  ## Remove everything that was built
	@rm -rf build
