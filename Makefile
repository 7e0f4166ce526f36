# graphcap: every target sets up what it needs. `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
PYTEST_WORKERS ?= 2
RUN_ARGS ?=
CUPY_TESTS_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run halo test test-slow emulator-sanitize test-cuda12 test-pythons cupy-tests check format bench docs gpu-check probes spirv clean

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

# One environment, made once and reused; a stamp per set of packages says what is in it.
$(PY):
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }  # half of one would pass for a whole one next time

$(VENV)/.run-stamp: pyproject.toml | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check -e ".[examples]"
	@touch $@

$(VENV)/.test-stamp: pyproject.toml tests/install_optional.sh | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@tests/install_optional.sh $(PY)
	@touch $@ $(VENV)/.run-stamp

run: $(VENV)/.run-stamp ## Capture a terrain time step on the CPU, replay it 2,000 times, check and draw it (RUN_ARGS=...)
	$(PY) examples/terrain.py --device cpu $(RUN_ARGS)

halo: $(VENV)/.run-stamp ## Diffusion on four MPI ranks, each with its own graphs and halo exchange (RUN_ARGS=...)
	@$(PY) -c "import mpi4py.MPI" 2>/dev/null || $(PY) -m pip install --quiet --disable-pip-version-check -e ".[mpi]"
	GRAPHCAP_CPU_THREADS=1 $(BIN)/mpiexec -n 4 $(PY) examples/halo.py $(RUN_ARGS)

test: $(VENV)/.test-stamp ## Run the fast tests (all backends; no GPU needed)
	$(PY) -m pytest -n $(PYTEST_WORKERS) --dist loadgroup -m "not slow and not gpu"
	$(PY) -m pytest -n $(PYTEST_WORKERS) --dist loadgroup -m "not slow and not gpu" tests/cupy

test-slow: $(VENV)/.test-stamp ## Run the long tests too
	$(PY) -m pytest -n $(PYTEST_WORKERS) --dist loadgroup -m "not gpu"
	$(PY) -m pytest -n $(PYTEST_WORKERS) --dist loadgroup -m "not gpu" tests/cupy

test-cuda12: $(VENV)/.test-stamp ## Make a second environment with the bindings of CUDA 12.9 and run its tests
	tests/emulated_device/make_cuda12.sh $(PYTHON)
	$(PY) -m pytest -q tests/test_emulated_device_cuda12.py

cupy-tests: $(VENV)/.test-stamp ## Run CuPy's own tests on the emulated device, from its sdist (CUPY_TESTS_ARGS=...)
	$(PY) -m tests.cupy.upstream.run $(CUPY_TESTS_ARGS)

test-pythons: ## Run the fast tests on every CPython from 3.10 up that this machine has
	tests/run_pythons.sh

check: $(VENV)/.test-stamp ## Lint, check the format, the types and the layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy graphcap tests
	MYPYPATH=tests/out_of_tree/npu/src $(BIN)/mypy -m graphcap_npu.backend -m graphcap_npu.graph -m graphcap_npu.device
	$(PY) -m pytest -q tests/test_layers.py

probes: $(VENV)/.test-stamp ## Put the open questions about the CUDA driver to the driver there is, and record its answers
	$(PY) -m tests.driver_rules.probes --out out/probes.json

emulator-sanitize: $(VENV)/.test-stamp ## The emulated driver's tests under address and undefined-behaviour sanitizers
	tests/emulated_device/sanitize.sh $(PY)

gpu-check: ## On a machine with an NVIDIA GPU (no network needed): everything on the real driver, with a report
	$(PYTHON) -m tests.gpu_check

format: $(VENV)/.test-stamp ## Format the code and mend what the linter can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.test-stamp ## Measure, as ratios against peers in one run
	$(PY) -m benchmarks

docs: $(VENV)/.test-stamp ## Write the generated pages of docs/ anew
	$(PY) -m graphcap._capture_state > docs/states.md
	$(PY) -m graphcap.backends.cpu.array.document docs/numpy.md

spirv: ## Compile the XPU kernels' OpenCL C to SPIR-V (needs clang-14 and llvm-spirv-14)
	sh graphcap/backends/xpu/kernels/build.sh

clean: ## Remove the environment and everything generated
	rm -rf $(VENV) .venv-* .cache build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis out
	find graphcap -name "*.so" -delete
