# Prompt Lab. `make` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
GO ?= go
VENV ?= .venv
TOOLS := $(GO) tool -modfile=tools/go.mod
PKGS := ./...

.PHONY: help setup system other-server test-ts build demo test test-go test-python check lint fmt race crash fuzz kill bench trace schema clean

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

system: ## install system packages (redis-server, python3-venv) when something is missing
	@deploy/system-packages.sh

setup: ## make the Python environment of the optimizer (hashed lock)
	@worker/adapter/install.sh $(VENV)

OTHER := cmd/promptlab/e2e/otherserver
other-server: $(OTHER)/node_modules/.package-lock.json ## install the model server of others that one test runs against
$(OTHER)/node_modules/.package-lock.json: $(OTHER)/package-lock.json
	@echo "installing the model server of others"
	@cd $(OTHER) && npm ci --silent && touch node_modules/.package-lock.json

CLIENTS := cmd/promptlab/e2e/clients
CLIENTS_VENV := .venv-clients
.PHONY: clients bin/client-go
clients: $(CLIENTS)/node/node_modules/.package-lock.json bin/client-go ## install the official clients of others that the chat endpoint is tested with
	@deploy/python-env.sh $(CLIENTS)/python/requirements.lock $(CLIENTS_VENV)
$(CLIENTS)/node/node_modules/.package-lock.json: $(CLIENTS)/node/package-lock.json
	@echo "installing the official Node clients"
	@cd $(CLIENTS)/node && npm ci --silent && touch node_modules/.package-lock.json
bin/client-go: # a module of its own; 1.5 minutes of processor time the first time, then cached
	@mkdir -p bin
	@cd $(CLIENTS)/go && $(GO) build -trimpath -p 2 -o $(CURDIR)/bin/client-go .

build: ## write bin/promptlab
	@mkdir -p bin
	$(GO) build -trimpath -o bin/promptlab ./cmd/promptlab

demo: setup build ## run the main job end to end on the embedded default and show the outcome
	@PROMPTLAB_PYTHON="$$(cd "$(VENV)" && pwd)/bin/python" bin/promptlab demo --exit

test: system setup other-server clients build test-python test-ts check race fuzz-api-short ## install what is needed, run every test

test-go: ## Go tests without the race detector (quick)
	$(GO) test $(PKGS)

TS := contracts/ts
$(TS)/node_modules/.package-lock.json: $(TS)/package-lock.json
	@echo "installing what the TypeScript client needs"
	@cd $(TS) && npm ci --silent && touch node_modules/.package-lock.json
test-ts: $(TS)/node_modules/.package-lock.json ## TypeScript types against the OpenAPI document; the client's tests
	@cd $(TS) && npm test --silent

race: ## Go tests with the race detector
	$(GO) test -race $(PKGS)

test-python: setup ## tests and lint of the optimizer's adapter; lint of the program that drives the official clients
	@worker/adapter/check.sh $(VENV)
	@$(VENV)/bin/python -m ruff check --no-cache --config worker/adapter/pyproject.toml $(CLIENTS)/python

check: lint ## lint, format, dead code, tidy modules
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not gofmt'ed:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet $(PKGS)
	$(GO) mod tidy -diff

lint: ## golangci-lint, pinned in tools/go.mod
	$(TOOLS) golangci-lint run $(PKGS)

fmt: ## format the code
	gofmt -w $$(git ls-files '*.go')

CRASH_SHORT := -disks 30000 -flips 4000 -kills 200 -cuts 25
CRASH_LONG := -deep -disks 1000000 -flips 100000 -kills 10000 -cuts 300
crash: build ## power cuts, I/O faults, bit flips, kill -9: the store's proof in one line of figures (as root: real power cuts, too); LONG=1 for the campaign
	@$(GO) test -c -o bin/crash.test ./ec/store/crashtest
	@cd ec/store/crashtest && ../../../bin/crash.test -test.run '^(TestCrash|TestReal)' -test.parallel 16 -test.timeout $(if $(LONG),4h,10m) \
	  -program "$(CURDIR)/bin/promptlab" $(if $(LONG),$(CRASH_LONG),$(CRASH_SHORT)) $(if $(DISKS),-disks $(DISKS))

kill: ## kill -9 worker, EC, Python and Redis at random moments; N rounds each
	$(GO) test ./cmd/promptlab/e2e -count=1 -v -run TestKills -args -kills $(or $(N),50)

fuzz: ## each fuzz target for a minute (T=30s for less)
	@for p in $$($(GO) list ./...); do for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
	  echo "== $$p $$f"; $(GO) test $$p -run '^$$' -fuzz "^$$f$$" -fuzztime $(or $(T),60s) || exit 1; done; done

FUZZER := .venv-fuzz
FUZZ_API = @deploy/python-env.sh api/fuzz/requirements.lock $(FUZZER) && $(GO) test ./api -run TestDocumentIsFuzzed -count=1 -timeout 4h -v -args -schemathesis=$(CURDIR)/$(FUZZER)/bin/schemathesis
.PHONY: fuzz-api fuzz-api-short
fuzz-api: ## requests made from the OpenAPI document against a server, for ten minutes (T=2h for more, SEED=n for others)
	$(FUZZ_API) -fuzz-time=$(or $(T),10m) -fuzz-examples=5000 -fuzz-seed=$(or $(SEED),1)

fuzz-api-short: ## the same for half a minute
	$(FUZZ_API) -fuzz-time=30s -fuzz-examples=5

bench: build ## speed as ratios measured in one run
	$(GO) test ./cmd/promptlab/bench -run TestBench -count=1 -v -args -bench-table

trace: ## write docs/requirements.md: each requirement with its tests
	$(GO) test ./internal/trace -count=1 -update

schema: $(TS)/node_modules/.package-lock.json ## rewrite JSON Schemas, the OpenAPI document and the TypeScript types from the Go types
	$(GO) test ./contracts -update
	$(GO) test ./api -run Committed -update
	@cd $(TS) && npm run -s generate

clean: ## remove what was built
	rm -rf bin $(VENV) $(FUZZER) $(CLIENTS_VENV)
