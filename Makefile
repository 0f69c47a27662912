# Everything that a person or a machine does with this repository. `make` lists it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The architecture that functions are built for and deployed on: x86_64 or arm64.
ARCHITECTURE ?= x86_64

# The pinned Python packages want 3.11 or newer; the first that is new enough is taken.
ifndef PYTHON
PYTHON := $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)
endif
export PYTHON

# The lists of Python packages that build and test Curfew.
HASHED := deploy/requirements.txt $(wildcard integration/requirements*.txt)

VENV := target/venv
VENV_LINT := target/venv-lint
VENV_WITNESS := target/venv-witness
VENV_AUDIT := target/venv-audit
VENV_PEER := target/venv-peer
VENV_BUILD := target/venv-build
VENV_RECIPES := target/venv-recipes
VENV_RECIPES_TORCH := target/venv-recipes-torch
MDBOOK_VERSION := 0.5.4
MDBOOK := target/mdbook-$(MDBOOK_VERSION)
CARGO_DENY_VERSION := 0.20.2
CARGO_DENY := target/cargo-deny-$(CARGO_DENY_VERSION)
PYTEST := PYTHONPATH=integration $(VENV)/bin/python -m pytest

SIMULATION := cargo test --profile simulation --locked --quiet
# The product's own runs, without AWS: nothing of the SDK is built.
SIMULATED_RUNS := $(SIMULATION) --package execution

AXE := target/axe
AXE_SCRIPT := $(AXE)/node_modules/axe-core/axe.min.js

# The crates that need neither AWS nor a network.
PURE := $(addprefix --package ,model sizing billing capacity jobs plan reaping notify operator recommend report)

# With the feature that tests need, so that the libraries of `cargo test --workspace` are not compiled again without it.
BUILD := cargo build --workspace --locked --features reaping/fixture

# The AWS CLI and `curfew` read AWS_REGION before AWS_DEFAULT_REGION, and SAM reads the latter alone.
ifdef AWS_REGION
export AWS_DEFAULT_REGION := $(AWS_REGION)
endif

# Linting and building need neither an account nor a region; SAM asks for the latter all the same.
export SAM_CLI_TELEMETRY := 0
SAM := AWS_DEFAULT_REGION="$${AWS_DEFAULT_REGION:-us-east-1}" $(VENV_LINT)/bin/sam

# What the SDKs have and nobody calls is not compiled, but in releases.
export RUSTC_WRAPPER ?= $(CURDIR)/.ci/rustc-with-hints

# Clippy stands in for rustc where our own crates are compiled: what is tested is linted on the way, and dependencies, aws-sdk-ec2
# above all, are compiled once instead of checked and compiled.
LINTED := RUSTC_WORKSPACE_WRAPPER="$(CURDIR)/.ci/rustc-with-clippy"

# What `make test` runs, in this order: the cheapest first.
PARTS := format unit simulate-quick template integration
# What `make test-all` runs besides.
PARTS_ALL := deny audit fuzz simulate simulate-all simulate-model-all every-fault end-to-end-all agent-baseline

.PHONY: help page screenshots measure-report demo playground docs test test-all test-fast fuzz fmt lint format deny audit hashes clippy environments unit simulate-quick simulate simulate-instances simulate-volumes simulate-sagemaker simulate-jobs simulate-quarter \
	simulate-model simulate-deadline simulate-all simulate-model-all template integration \
	every-fault end-to-end-all recipes recipes-torch witness bench bench-scan measure-organization bench-peer agent-baseline install build preflight deploy clean \
	release release-check release-command release-checksums terraform prices

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# Packages are installed while aws-sdk-ec2 leaves a core idle. A line with MAKE itself would be run by `make --dry-run`.
demo: ## Watch Curfew at work on a local AWS (5 to 9 minutes the first time)
	@$(MAKE_COMMAND) $(VENV)/.installed & packages=$$!; built=0; $(BUILD) || built=$$?; wait "$$packages" && exit $$built
	PYTHONPATH=integration $(VENV)/bin/python -m demo

playground: $(VENV)/.installed ## Use Curfew in a shell on a local AWS whose time goes on: make playground [SPEED=60]
	@$(BUILD)
	@PYTHONPATH=integration $(VENV)/bin/python -m playground

# Each part's time and work: .ci/parts. What passed within a day with the same inputs is left out: integration/unchanged.py.
test: ## Run every check: format, lints, all tests, the template, the real binaries end to end: make test [ALL=1]
	@$(PYTHON) .ci/parts $(PARTS)

test-all: ## Run every check, and those that take hours
	@$(MAKE) test PARTS="$(PARTS) $(PARTS_ALL)"

# Without whole lives of jobs, fuzzed documents and policies for deadlines, which take most of the time.
test-fast: ## Run most tests of the pure crates, and those of the reference: no AWS, no network, seconds
	cargo test $(PURE) --locked --lib --test reference --test jobs_page -- --skip deadline

# The environment goes before .cargo/config.toml. Some properties try a fixed multiple of this.
fuzz: export PROPTEST_CASES ?= 2500
fuzz: ## Fuzz tags, configuration, events and documents for a few minutes
	cargo test --locked --package operator --package runtime --test fuzz
	cargo test --locked --package billing --test ledger fuzz
	cargo test --locked --package jobs --lib
	cargo test --locked --package store --lib fuzz

fmt: ## Format the code
	cargo fmt --all

lint: format clippy template ## Run the checks that run nothing: format, clippy, the template

format: ## Check the format of the code, and how its comments begin
	cargo fmt --all --check
	.ci/comments

deny: $(CARGO_DENY)/bin/cargo-deny ## Check the dependencies' licenses, sources and advisories (the first time it builds cargo-deny: minutes)
	$(CARGO_DENY)/bin/cargo-deny --log-level error check

audit: $(VENV_AUDIT)/.installed ## Ask PyPI for known vulnerabilities of the Python packages that build and test Curfew
	for file in $(HASHED); do $(VENV_AUDIT)/bin/pip-audit --strict --disable-pip --no-deps --requirement $$file || exit 1; done

clippy: ## Lint the code, with warnings denied
	cargo clippy --workspace --all-targets --locked -- -D warnings

unit: ## Lint every crate and run its tests
	.ci/compiled-once
	$(PYTHON) .ci/dependencies
	$(LINTED) cargo test --workspace --locked

simulate-quick: ## Live 100 days of simulated accounts of instances, 500 of volumes and 75 of SageMaker, with what `make unit` has built
	$(LINTED) cargo test --workspace --locked --quiet --test simulation -- --account-days 100
	$(LINTED) cargo test --workspace --locked --quiet --test simulation-volumes -- --account-days 500
	$(LINTED) cargo test --workspace --locked --quiet --test simulation-sagemaker -- --account-days 75

# ARGS: `make simulate ARGS=--help` lists them; those of a violation are printed with it.
simulate simulate-instances simulate-volumes simulate-sagemaker: ARGS ?= --account-days 4000
simulate: simulate-instances simulate-volumes simulate-sagemaker simulate-jobs simulate-quarter simulate-model ## Live 4,000 days of simulated accounts of instances, as many of volumes and of SageMaker, months of jobs, quarters of budgets, and all lives of a job

simulate-instances: ## Those of instances, with all that goes wrong: make simulate-instances [ARGS="--seed 7"]
	$(SIMULATED_RUNS) --test simulation -- $(ARGS)

simulate-volumes: ## Those of volumes: make simulate-volumes [ARGS="--seed 7"]
	$(SIMULATED_RUNS) --test simulation-volumes -- $(ARGS)

simulate-sagemaker: ## Those of SageMaker: make simulate-sagemaker [ARGS="--seed 7"]
	$(SIMULATED_RUNS) --test simulation-sagemaker -- $(ARGS)

simulate-jobs: ## Accounts with jobs through three months, with all that goes wrong
	$(SIMULATED_RUNS) --test simulation-jobs -- --ignored --nocapture

simulate-quarter: ## Budgets of 200 instances and 40 jobs, and what 60 machines saved, through a quarter, several times
	$(SIMULATED_RUNS) --test lives -- --ignored --nocapture quarter

measure-report: ## CPU and memory of the report of a month of 10,000 runs, of the ledger and of audit records
	$(SIMULATION) --package report --test report -- --ignored --nocapture --exact measured::ten_thousand_runs_in_the_ledger
	$(SIMULATION) --package report --test report -- --ignored --nocapture --exact measured::ten_thousand_audit_records

simulate-model: ## All lives of a job, of a box and of a gang within bounds: two reconcilers, crashes everywhere, a fault, and time (a minute)
	$(SIMULATION) --package jobs --test lives --test boxes --test gangs -- --ignored --nocapture --test-threads 1 simulate

simulate-model-all: ## Those with two faults (minutes, and gigabytes)
	$(SIMULATION) --package jobs --test lives -- --ignored --nocapture --test-threads 1 deep

simulate-deadline: ## Replay Spot availability under each policy for deadlines: make simulate-deadline [TRACES=folder] [ARGS="--step 195"]
	cargo run --locked --release --package jobs --example deadline-simulator -- $(TRACES) $(ARGS)

simulate-all: ## Live a million days of simulated accounts of each kind (hours)
	@$(MAKE) simulate ARGS="--account-days 1000000"

# The program that makes a release. Only the parts with the template need a package, SAM's translator.
RELEASE_PROGRAM = PYTHONPATH=deploy $(VENV_LINT)/bin/python -m release

template: $(VENV_LINT)/.installed ## Lint the templates (sam validate, cfn-lint), without an account
	$(SAM) validate --lint
	for beside in deploy/*.yaml deploy/organization/*.yaml deploy/replica/*.yaml; do $(SAM) validate --lint --template-file "$$beside"; done
	$(VENV_LINT)/bin/cfn-lint
	$(RELEASE_PROGRAM) template --out target/packaged
	$(VENV_LINT)/bin/cfn-lint --include-checks I --template target/packaged/curfew.json

# Whole files go to one process or another, so that what shares a file shares no moment; most tests wait most of the time. Files go by their
# names: sorted by the number of their tests, as is the default, the longest ones would come last. The trials of every fault are many at
# once by themselves, and nothing else is timed beside them; of each function some hang for 100 s, at the same time.
TESTS_AT_ONCE ?= 6
EVERY_FAULT := integration/tests/test_every_fault.py

integration: $(VENV)/.installed $(VENV_LINT)/.installed ## Run the real binaries end to end against a local AWS
	$(LINTED) $(BUILD) --bins --examples
	$(if $(ALL),rm -rf target/passed)
	$(PYTEST) -p unchanged integration --ignore $(EVERY_FAULT) --numprocesses $(TESTS_AT_ONCE) --dist loadfile --no-loadscope-reorder --quiet
	$(PYTEST) -p unchanged $(EVERY_FAULT) --numprocesses $(TESTS_AT_ONCE) --quiet

page: $(VENV)/.installed $(AXE_SCRIPT) ## Look at the report's page in Chromium, and check that everybody can read it (needs chromium and npm)
	cargo build --locked --package report --example sample
	$(PYTEST) integration/tests/test_report_page.py --quiet -rs

screenshots: ## Make the pictures of the report for README.md and docs (needs chromium)
	cargo build --locked --package report --example sample
	$(PYTHON) integration/screenshots.py docs/images

recipes: $(VENV)/.installed $(VENV_RECIPES)/.installed ## Run the recipes of docs/recipes on the CPU, with a plug that is pulled and a warning
	$(LINTED) $(BUILD)
	RECIPES_PYTHON="$(CURDIR)/$(VENV_RECIPES)/bin/python" $(PYTEST) integration/tests/test_recipes.py --quiet -rs -s

recipes-torch: $(VENV)/.installed $(VENV_RECIPES_TORCH)/.installed ## Run those of PyTorch and what stands on it, and jobs on several machines (6 GB are installed)
	$(LINTED) $(BUILD)
	RECIPES_PYTHON="$(CURDIR)/$(VENV_RECIPES_TORCH)/bin/python" $(PYTEST) integration/tests/test_recipes.py integration/tests/test_gangs_torch.py --quiet -rs -s

# Optimised, as they are deployed. They are built where `cargo build --release` always builds, for this machine.
RELEASE := cargo build --release --locked
BENCH := PYTHONPATH=integration $(VENV)/bin/python -m bench

bench: $(VENV)/.installed ## Measure the reapers on 1,000 to 50,000 instances and volumes: make bench [ARGS="--check"] (release: 10 minutes and more)
	$(RELEASE) --package reap-instances --package reap-volumes --package reap-sagemaker
	$(BENCH) $(ARGS)

bench-scan: $(VENV)/.installed ## Measure `curfew scan` on 10,000 instances in 17 regions: make bench-scan [ARGS="--check"] (release: 10 minutes and more)
	$(RELEASE) --package cli
	$(BENCH) scan $(ARGS)

measure-organization: $(VENV)/.installed ## Measure `curfew scan --organization` on 200 accounts in 17 regions of the local AWS (minutes)
	cargo build --locked --package cli
	PYTHONPATH=integration:integration/tests $(VENV)/bin/python integration/measure_organization.py $(ARGS)

bench-peer: $(VENV)/.installed $(VENV_PEER)/.installed ## Measure Cloud Custodian beside reap-instances: make bench-peer [ARGS="--counts 10000"] (release: 10 minutes and more)
	$(RELEASE) --package reap-instances
	$(BENCH) peer $(ARGS)

every-fault: $(VENV)/.installed ## Try every fault at every call that a run makes (hours)
	$(BUILD)
	$(PYTEST) $(EVERY_FAULT) --every-fault=all --quiet

# Seeds are printed, and one that went wrong is lived again by itself.
end-to-end-all: LIVES ?= 100
end-to-end-all: $(VENV)/.installed ## Live a hundred jobs whose machines are lost five times at random: make end-to-end-all [SEED=7] (half an hour)
	$(BUILD)
	LIVES=$(LIVES) $(if $(SEED),SEED=$(SEED)) $(PYTEST) integration/tests/test_jobs_end_to_end.py -k random_interruptions --capture no --quiet

# LocalStack wants this Python. It is a process, not a container; without Docker it leaves the functions out.
witness: PYTHON := $(or $(WITNESS_PYTHON),python3.13)
witness: $(VENV_WITNESS)/.installed ## Create the template on LocalStack, before a release (Python 3.13, and Docker for the functions)
	PYTHONPATH=integration $(VENV_WITNESS)/bin/python -m witness

# Links in the pages are relative to the repository, so the book has its layout.
BOOK := target/book
docs: $(MDBOOK)/bin/mdbook ## Build the documentation as a site, target/book/html/index.html (the first time it builds mdBook: minutes)
	rm -rf $(BOOK) && mkdir -p $(BOOK)/src
	cp docs/book.toml $(BOOK)
	cp --parents *.md {agent,data,events,integration,deploy/terraform}/README.md deploy/policies/*.json LICENSE $(BOOK)/src
	cp -r docs $(BOOK)/src
	sed -E 's#\]\(([^.])#](docs/\1#; s#\]\(\.\./#](#' docs/SUMMARY.md > $(BOOK)/src/SUMMARY.md
	find $(BOOK)/src -name '*.md' ! -name SUMMARY.md -exec sed -E -i 's#(\]\([^)]*)README\.md#\1index.md#g' {} +
	$(MDBOOK)/bin/mdbook build $(BOOK)

install: ## Install the command `curfew` for you, in ~/.cargo/bin (5 minutes the first time)
	cargo install --path cli --locked --profile installed

# make and SAM call make again (deploy/package.mk), which must not think itself part of this one.
ALONE := env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL

build: $(VENV_LINT)/.installed ## Build the functions for AWS: make build [ARCHITECTURE=arm64] (release: 10 minutes and more)
	@echo "1 of 3: compiling the functions for $(ARCHITECTURE)"
	@$(ALONE) make -f deploy/$(ARCHITECTURE)/Makefile compile
	@printf '2 of 3 (after %s s): compiling the agent for x86_64 and arm64\n' "$$(($$(date +%s) - $(BEGUN)))"
	@$(ALONE) make -f deploy/package.mk agents
	@printf '3 of 3 (after %s s): packaging\n' "$$(($$(date +%s) - $(BEGUN)))"
	@$(ALONE) CURFEW_COMPILED=yes $(SAM) build --parameter-overrides Architecture=$(ARCHITECTURE)

build: BEGUN := $(shell date +%s)

agent-baseline: ## Build the agent for both processors, and check that an old Linux would start it (release: 20 minutes and more)
	$(ALONE) make -f deploy/package.mk agents

# What can be known in seconds comes before minutes of compiling. What needs the AWS SDK for Python comes once SAM is installed, which brings it.
preflight: ## Check in seconds what `make deploy` needs: Rust, Python, credentials, region, permissions, the stack: make preflight [ARGS="..."]
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed. Install it, or run: make PYTHON=/path/to/python3 deploy" >&2; exit 1; }
	@$(PYTHON) deploy/preflight.py machine
	@$(MAKE) $(VENV_LINT)/.installed
	@$(VENV_LINT)/bin/python deploy/preflight.py account -- $(ARGS)

# Parameters that are already deployed stay as they are; the first time, --guided asks for each.
deploy: ## Check, build and deploy: make deploy [ARCHITECTURE=arm64] [ARGS="--guided"]
	@test "$(PREFLIGHT)" = no || $(MAKE) preflight || { \
		echo "If you know that a check is wrong, as with a policy whose conditions IAM's simulator cannot know: make deploy PREFLIGHT=no" >&2; exit 1; }
	@$(MAKE) build
	@$(VENV_LINT)/bin/python deploy/restore.py -- $(ARGS)
	SAM_CLI_TELEMETRY=0 $(VENV_LINT)/bin/sam deploy --parameter-overrides Architecture=$(ARCHITECTURE) $(ARGS)

release: $(VENV_LINT)/.installed $(VENV_BUILD)/.installed ## Build what a tag publishes, in target/release-artifacts: make release [ARGS="stack"] (release: an hour and more)
	$(RELEASE_PROGRAM) $(ARGS)

release-command: $(VENV_BUILD)/.installed ## Build the command alone, for the systems that this one can link: wheels and archives
	PYTHONPATH=deploy $(PYTHON) -m release command $(ARGS)

release-check: ## Check that everything names one version: make release-check [TAG=v1.2.3]
	PYTHONPATH=deploy $(PYTHON) -m release check $(if $(TAG),--tag "$$TAG")

release-checksums: ## Write the checksums of what is in target/release-artifacts
	PYTHONPATH=deploy $(PYTHON) -m release checksums

TERRAFORM ?= terraform
terraform: ## Check the Terraform module (needs terraform, or TERRAFORM=tofu, and their registry)
	$(TERRAFORM) -chdir=deploy/terraform fmt -check -diff
	$(TERRAFORM) -chdir=deploy/terraform init -backend=false -input=false
	$(TERRAFORM) -chdir=deploy/terraform validate

clean: ## Remove everything that was built or installed here
	rm -rf target .aws-sam

# data/README.md, "Prices", says what it asks and refuses.
prices: $(VENV)/.installed ## Renew the tables of prices in data/ from the AWS Price List (needs credentials): make prices [ARGS=--accept-changes]
	$(VENV)/bin/python data/update_prices.py $(ARGS)

# A new version of a package is written without hashes first.
hashes: ## Write the hash of every file into the lists of Python packages, after a version was changed (needs uv)
	for file in $(HASHED); do \
		{ sed '/^[^#]/,$$d' $$file && uv pip compile --quiet --universal --python-version 3.13 --no-deps --no-header --no-annotate \
			--generate-hashes $$file; } > $$file.new && mv $$file.new $$file || exit 1; \
	done

$(CARGO_DENY)/bin/cargo-deny:
	cargo install cargo-deny --version $(CARGO_DENY_VERSION) --locked --root $(CARGO_DENY)

# Finds what people who see or hear badly could not read. Only the tests of the report's page need it.
$(AXE_SCRIPT): integration/axe/package-lock.json
	mkdir -p $(AXE)
	cp integration/axe/*.json $(AXE)
	cd $(AXE) && npm ci --ignore-scripts --no-audit --no-fund --silent
	touch $@

environments: $(VENV)/.installed $(VENV_LINT)/.installed

$(MDBOOK)/bin/mdbook:
	cargo install mdbook --version $(MDBOOK_VERSION) --locked --no-default-features --features search --root $(MDBOOK)

$(VENV_BUILD)/.installed: deploy/requirements.txt
	$(MAKE) -f deploy/package.mk $(CURDIR)/$@

# A virtual environment is made anew when its list of packages changes, and is complete only once it is stamped. The lists of what builds and
# tests Curfew are complete, and have the hash of each file that the index has of a version, for every platform: nothing else is installed.
$(VENV)/.installed $(VENV_LINT)/.installed $(VENV_WITNESS)/.installed $(VENV_AUDIT)/.installed $(VENV_PEER)/.installed: HASHES := --require-hashes --no-deps
$(VENV)/.installed: integration/requirements.txt
$(VENV_LINT)/.installed: integration/requirements-lint.txt
$(VENV_WITNESS)/.installed: integration/requirements-witness.txt
$(VENV_AUDIT)/.installed: integration/requirements-audit.txt
$(VENV_PEER)/.installed: integration/requirements-peer.txt
$(VENV_RECIPES)/.installed: docs/recipes/requirements.txt
$(VENV_RECIPES_TORCH)/.installed: docs/recipes/requirements-torch.txt
$(VENV)/.installed $(VENV_LINT)/.installed $(VENV_WITNESS)/.installed $(VENV_AUDIT)/.installed $(VENV_PEER)/.installed \
	$(VENV_RECIPES)/.installed $(VENV_RECIPES_TORCH)/.installed:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed (make PYTHON=/path/to/python3)" >&2; exit 1; }
	@echo "Installing $< into $(@D)"
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --no-input $(HASHES) --requirement $<
	touch $@
