# Every habit of the project is a target here; CI runs `make check` and `make test` through .ci/run.
#
#   make test PYTHON=python3.12 VENV=.venv-3.12     another interpreter, beside the first
#   make test ARGS='tests/unit -k balancer'         a part of the tests
#   make test PARALLEL=                             one test at a time
#   make test EXAMPLES=                             with more examples of each property

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
SEEDS ?= 1000

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input
PARALLEL ?= -n 6 --dist loadfile --no-loadscope-reorder
PAIRS ?= -n 3 --dist loadfile --no-loadscope-reorder
EXAMPLES ?= --hypothesis-profile=few
QUICK := $(BIN)/python -m pytest -q -m 'not processes and not more and not faults and not soak and not thorough' $(EXAMPLES)
COMPUTING := tests/architecture tests/property tests/unit/actors
WAITING := tests/unit/client tests/unit/monitor
OTHERS := $(filter-out $(COMPUTING) $(WAITING) %/__pycache__,$(wildcard tests/unit/*))
APT := DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=60
SOAKED := tests/results/soak.txt
BENCHMARKS := $(sort $(filter-out tests/benchmarks/conftest.py tests/benchmarks/test_%,$(wildcard tests/benchmarks/[a-z]*.py)))

LOCK := $(VENV)/.uv/bin/uv pip compile pyproject.toml --quiet --universal --python-version 3.10 --no-header --no-annotate

# Bytecode is written, also where the environment forbids it: the tests start hundreds of interpreters.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help quickstart test test-more soak fast locked floors lock simulate check format bench docs draw clean

help: ## what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1|/' | awk -F'|' '{printf "  make %-11s %s\n", $$1, $$2}'

quickstart: $(VENV)/.scaler ## install scaler here and measure the code of Python's standard library with it
	@$(BIN)/python examples/measure_code.py

test: $(VENV)/.dev $(VENV)/.compiled ## the tests that need nothing but pip, in at most 200 seconds on two quiet cores
	@$(BIN)/python -m pytest $(PARALLEL) $(EXAMPLES) $(ARGS)

test-more: $(VENV)/.more $(VENV)/.system $(VENV)/.browser $(VENV)/.testsuite $(VENV)/.javascript $(VENV)/.theirs $(VENV)/.ipython-8 ## the documentation, and the tests that are heavy; as root it installs Chromium, Node.js, Slurm, Prometheus and Open MPI with apt
	@first=0; part() { "$$@" || { code=$$?; [ $$first -ne 0 ] || first=$$code; }; }; \
	$(if $(ARGS),part $(BIN)/python -m pytest -m '(more or faults) and not soak' $(ARGS),$(MORE)); \
	exit $$first

# Each part runs, also when one before it has failed. Those that drive other programs and take the whole machine come last.
define MORE
part $(MAKE) --no-print-directory docs; \
part $(BIN)/python -m pytest $(PARALLEL) --hypothesis-profile=many tests/property; \
part $(BIN)/python -m pytest $(PARALLEL) -m 'faults and not more and not soak'; \
part $(BIN)/python -m pytest $(PAIRS) --rerun-show-tracebacks -m 'more and not alone and not soak'; \
part $(BIN)/python -m pytest --rerun-show-tracebacks -m 'more and alone and not soak'
endef

# What it prints is kept: it says at which commit the long tests passed, and how long each of them took.
soak: $(VENV)/.more $(VENV)/.system $(VENV)/.browser ## the tests that take minutes each, which CI leaves out; what they print is kept in tests/results/soak.txt
	@mkdir -p $(dir $(SOAKED)) && { echo "$$(date +%F) $$(git describe --always --dirty) on $$(nproc) cores"; \
	$(BIN)/python -m pytest -v --no-header -m soak --durations=0 --durations-min=1 $(ARGS); echo "exit code $$?"; } 2>&1 | tee $(SOAKED); \
	tail -n 1 $(SOAKED) | grep -qx 'exit code 0'

# Three processes of pytest, which take equally long: the tests of client and monitor mostly wait. Workers of pytest-xdist would
# all collect all tests, and send reports. What the first two say is shown after the third. Exit code 5: ARGS have chosen no test
# of a part.
fast: $(VENV)/.dev $(VENV)/.compiled ## the tests without real processes, with few examples of each property, in 30 seconds
	@said=$$(mktemp -d) && trap 'rm -rf "$$said"' EXIT && trap 'exit 130' INT; \
	$(QUICK) $(WAITING) $(ARGS) >"$$said/1" 2>&1 & parts=$$!; \
	$(QUICK) $(OTHERS) $(ARGS) >"$$said/2" 2>&1 & parts="$$parts $$!"; \
	$(QUICK) $(COMPUTING) $(ARGS); codes=$$?; \
	for part in $$parts; do wait $$part; codes="$$codes $$?"; done; \
	cat "$$said/1" "$$said/2"; \
	worst=5; for code in $$codes; do case $$code in 5) ;; 0) [ $$worst -ne 5 ] || worst=0;; *) worst=$$code;; esac; done; \
	exit $$worst

locked: ## the tests of `make fast`, with the packages of lock.txt, whose hashes are checked
	@$(MAKE) --no-print-directory fast WITH=lock VENV=$(VENV)-locked

floors: ## the same with the oldest packages that pyproject.toml allows; their wheels are for Python 3.10 to 3.12
	@$(MAKE) --no-print-directory fast WITH=floors VENV=$(VENV)-floors

lock: $(VENV)/.dev $(VENV)/.uv ## lock.txt, the packages of a checkout with their hashes, and bom.json; ARGS=--upgrade: newer ones
	@$(LOCK) --extra dev --generate-hashes --output-file lock.txt $(ARGS)
	@$(LOCK) --constraint lock.txt | $(BIN)/python .ci/bom.py >bom.json

simulate: $(VENV)/.dev ## the whole system with virtual time, SEEDS=1000 of it; a seed that fails says how to replay it
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS) $(ARGS)

check: $(VENV)/.dev ## formatting, lint, types and layers, as CI checks them
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: $(VENV)/.dev ## format the code and repair what the linter can
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

bench: $(VENV)/.dev ## every benchmark program, one after the other
	@set -e; for program in $(BENCHMARKS); do echo "== $$program"; $(BIN)/python "$$program" $(ARGS); done

docs: $(VENV)/.docs ## the documentation, any warning is an error
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env docs docs/_build/html
	@echo "docs/_build/html/index.html"

draw: $(VENV)/.dev ## the pages of docs/ that are written from the code
	@set -e; for program in docs/draw_*.py; do $(BIN)/python "$$program"; done

clean: ## remove the environment and everything that was built
	@rm -rf $(VENV) build dist docs/_build .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

# The stamps follow pyproject.toml: as long as it does not change, nothing is installed again.

$(VENV)/.made:
	@$(PYTHON) -c '' 2>/dev/null || { echo "$(PYTHON) cannot be started; try make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "scaler needs Python 3.10 or later and $(PYTHON) is older; try make PYTHON=python3.12" >&2; exit 1; }
	@echo "installing into $(VENV), once: it takes half a minute" >&2
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.scaler: $(VENV)/.made pyproject.toml
	@$(PIP) install --editable .
	@touch $@

# WITH=lock: the packages of lock.txt, whose hashes are checked. WITH=floors: the oldest that pyproject.toml allows.
ifeq ($(WITH),lock)
$(VENV)/.dev: $(VENV)/.made lock.txt
	@$(PIP) install --require-hashes --requirement lock.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/.scaler
else ifeq ($(WITH),floors)
$(VENV)/.dev: $(VENV)/.made pyproject.toml
	@sed -nE '/^dependencies = /,/^all = /s/.*"([a-z-]+)>=([0-9.]+),.*/\1==\2/p' pyproject.toml >$(VENV)/floors.txt
	@$(PIP) install --constraint $(VENV)/floors.txt --editable '.[dev]'
	@touch $@ $(VENV)/.scaler
else
$(VENV)/.dev: $(VENV)/.made pyproject.toml
	@$(PIP) install --editable '.[dev]'
	@touch $@ $(VENV)/.scaler
endif

# Pytest compiles the tests in its own way, and in a clean clone each of its processes would compile all of them.
$(VENV)/.compiled: $(VENV)/.dev
	@find tests -name 'test_*.py' | sort | xargs -P 2 -n 150 $(BIN)/python -m pytest -q --collect-only >/dev/null 2>&1 || true
	@touch $@

$(VENV)/.uv: $(VENV)/.made
	@$(PIP) install --target $@ uv

$(VENV)/.more: $(VENV)/.made pyproject.toml
	@$(PIP) install --editable '.[more]'
	@touch $@ $(VENV)/.dev $(VENV)/.scaler

# Storms cut the network between namespaces. Where these cannot be installed, they make do with proxies, or are skipped.
$(VENV)/.system: $(VENV)/.made
	@for tool in ip mpiexec munged nft prlimit prometheus slurmctld slurmd ss tc unshare; do command -v $$tool >/dev/null || missing="$$missing $$tool"; done; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		{ $(APT) update && $(APT) install --yes --no-install-recommends iproute2 munge nftables openmpi-bin prometheus slurm-wlm \
		util-linux; } \
			>/dev/null 2>&1 || echo "could not install$$missing" >&2; \
	fi
	@touch $@

# The page is tested in Chromium, which comes with the packages of the system. Without it, those tests alone fail.
$(VENV)/.browser: $(VENV)/.made
	@if command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && $(APT) update && \
		$(APT) install --yes --no-install-recommends chromium; } >/dev/null 2>&1; \
	then touch $@; else echo "install Chromium: the tests of the page need it" >&2; fi

# CPython's own tests of executors are run with ours. Where the interpreter came without them, Debian may have them.
$(VENV)/.testsuite: $(VENV)/.made
	@$(BIN)/python -c 'import test.test_concurrent_futures' 2>/dev/null || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		package=$$($(BIN)/python -c 'import sys; print("libpython%d.%d-testsuite" % sys.version_info[:2])'); \
		{ dpkg -s $$package || { $(APT) update && $(APT) install --yes --no-install-recommends $$package; }; } \
			>/dev/null 2>&1 || echo "could not install $$package" >&2; \
	fi
	@touch $@

# The tests of parfun and pargraph, and the examples of Scaler 1.9.9, are in their source packages. Without these, those that
# run them are skipped.
$(VENV)/.theirs: $(VENV)/.more
	@mkdir -p $(VENV)/.theirs-sources && cd $(VENV)/.theirs-sources && \
		for package in parfun==7.2.2 pargraph==0.9.6 scaler==1.9.9; do \
			{ $(abspath $(BIN))/python -m pip download --quiet --no-deps --no-binary parfun,pargraph,scaler $$package && \
			tar xzf "$$(echo $$package | sed 's/==/-/').tar.gz"; } >/dev/null 2>&1 || \
			echo "could not get the source package of $$package" >&2; \
		done
	@touch $@

# IPython's %autoreload has worked in another way before version 9. What else it needs is there with the present one.
$(VENV)/.ipython-8: $(VENV)/.more
	@$(PIP) install --no-deps --target $@ 'ipython>=8,<9' decorator >/dev/null 2>&1 || \
		echo "could not install IPython 8" >&2

# The worker and the client in JavaScript need Node.js 18. Their packages bring what they need: no script of theirs runs.
$(VENV)/.javascript: $(VENV)/.made examples/javascript/package-lock.json
	@if { command -v node && command -v npm; } >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && $(APT) update && \
		$(APT) install --yes --no-install-recommends nodejs npm; } >/dev/null 2>&1; \
	then cd examples/javascript && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error --fetch-retries=5 >/dev/null && \
		touch $(abspath $@) || echo "npm could not install the packages that the tests in JavaScript need" >&2; \
	else echo "install Node.js with npm: the tests in JavaScript need them" >&2; fi

$(VENV)/.docs: $(VENV)/.made pyproject.toml
	@$(PIP) install --editable '.[docs]'
	@touch $@
