# The front door. `make demo` shows lfarm at work; CI runs `make check` and `make lint` (.ci/run).
.PHONY: help demo check lint build packages packages-to-build test fuzz chaos scale-check gpu-check gpu-bundle images package wheel check-fresh format clean
.DEFAULT_GOAL := help

LABELS ?= unit|golden|conformance|sim|farm|chaos|k8s|fuzz

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*##/  make \1\t/p' Makefile | expand -t 20

demo: packages-to-build  ## start a farm here, compile a bundled transformer, run it, compare with PyTorch
	@cmake --preset release
	@cmake --build build --target programs
	@tests/demo/demo.sh build/bin

check: packages  ## build everything, check formatting, run all tests; LABELS='unit|sim' chooses
	@LABELS='$(LABELS)' .ci/check

lint: packages  ## clang-tidy and formatting, of everything or with LFARM_LINT=N of the last N commits
	@.ci/lint

build: packages-to-build  ## binaries in build/bin; installs missing Debian packages first
	@cmake --preset release
	@cmake --build build --target binaries

test: packages  ## only the tests; LABELS='unit|sim' chooses
	@cmake --preset release
	@cmake --build build
	@ctest --test-dir build --output-on-failure -j $$(nproc) -L '^($(LABELS))$$'

# Other graphs every day; the first one's number is printed.
SEED ?= $(shell date +%y%m%d)0000
GRAPHS ?= 10000
NEST_ROUNDS ?= 20
GENOMES ?= 1000
fuzz: packages  ## for every night: 10,000 random graphs, changes of loop nests, nests of searches; GRAPHS=, SEED=, GENOMES=
	@cmake --preset release
	@cmake --build build --target test_graph_differential test_searched_nests test_codegen_fuzz test_codegen_fuzz_cuda emulator
	@LFARM_FUZZ_SEED=$(SEED) LFARM_FUZZ_GRAPHS=$(GRAPHS) build/tests/test_graph_differential
	@LFARM_FUZZ_GENOMES=$(GENOMES) build/tests/test_searched_nests
	@for test in codegen_fuzz codegen_fuzz_cuda; do \
	  LD_LIBRARY_PATH=build/tests/emulator LFARM_FUZZ_SEED=$(SEED) LFARM_FUZZ_ROUNDS=$(NEST_ROUNDS) \
	    build/tests/test_$$test --gtest_filter='*RandomNests' || exit 1; done

SECONDS ?= 60
COORDINATORS ?= 1
SHARDS ?= 1
SEARCHERS ?= 0
SIMULATED ?= 0
chaos: packages  ## a farm whose processes, disk and network fail for SECONDS=60; SEED=, COORDINATORS=, SHARDS=64, SEARCHERS=, SIMULATED=workers
	@cmake --preset release
	@cmake --build build --target lfarm_chaos
	@build/tests/lfarm-chaos --seconds $(SECONDS) --seed $(SEED) --coordinators $(COORDINATORS) \
	  --shards $(SHARDS) --searchers $(SEARCHERS) --simulated $(SIMULATED)

# Positions are inputs of the exported steps or states of theirs.
LAYERS ?= 2
POSITIONS ?= 0,5,1023
scale-check: packages  ## two layers of full-width decode steps on the emulated GPU; GRAPHS='A.pt2 B.pt2', LAYERS=
	@cmake --preset release
	@cmake --build build --target lfarm-bench emulator
	@for graph in $(GRAPHS); do \
	  LD_LIBRARY_PATH=build/tests/emulator build/bin/lfarm-bench gpu-verify $$graph --layers $(LAYERS) --kernels \
	    --value 'pos=$(POSITIONS)' --value '*lifted_tensor_*=$(POSITIONS)' || exit 1; done

gpu-check: packages  ## conformance and benchmarks on this machine's GPU; see tests/gpu/gpu-check.sh
	@cmake --preset release
	@cmake --build build --target gpu
	@tests/gpu/gpu-check.sh --out build/gpu-check

gpu-bundle: packages  ## the same for another machine: build/lfarm-gpu-bundle.tar.gz
	@cmake --preset release
	@cmake --build build --target gpu
	@tests/gpu/bundle.sh build

package: packages-to-build  ## Debian packages of client, farm and -dev in build/packages, for this machine's Debian
	@cmake --preset release
	@cmake --build build --target programs lfarm_library manual
	@cd build && cpack -B packages && rm -rf packages/_CPack_Packages
	@ls -l build/packages/*.deb

wheel: packages-to-build  ## a wheel and a tarball for any Linux with glibc 2.34, in build-portable/packages
	@cmake --preset portable
	@cmake --build build-portable --target programs lfarm_library manual
	@/usr/bin/python3 -B packaging/wheel.py build-portable build-portable/packages --glibc 2.34
	@packaging/portable/tarball.sh build-portable build-portable/packages

SUITES ?= bookworm trixie sid
check-fresh: package wheel  ## installs both into fresh Debians and uses them there; SUITES=, needs root
	@tests/fresh/check-fresh.sh build/packages build-portable/packages $(SUITES)

images:  ## container images for Kubernetes, with docker, podman or buildah; see k8s/images/build.sh
	@k8s/images/build.sh

format:  ## rewrite the sources in house style
	@git ls-files -co --exclude-standard '*.h' '*.cuh' '*.cc' | xargs clang-format-14 -i

clean:  ## remove all build folders
	@rm -rf build build-*

packages:
	@.ci/install-packages

packages-to-build:
	@.ci/install-packages --to-build
