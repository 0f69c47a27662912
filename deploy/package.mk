# How a release is compiled, and how `sam build` makes a function's package.
#
# `make build` compiles first: all functions in one cargo invocation (compile), and the agent for all processors in another
# (agents), with cargo's own progress. One invocation and not one per package, because cargo unites the features of what it is
# asked for, and a dependency with one feature more is compiled anew, and with it the whole SDK. Two and not one, because cargo
# has no target for each package: the functions would be compiled for both processors, and for the old glibc of machines.
#
# SAM then calls `make build-<LogicalId>` once per function, in a scratch copy of that function's directory, which only copies:
# CURFEW_COMPILED says that everything is compiled. Without it, as for somebody who calls `sam build`, the first of these calls
# compiles, and SAM shows nothing until it has ended.
#
# SAM tells a makefile neither architecture nor parameters, so template.yaml picks the folder (deploy/x86_64 or
# deploy/arm64) whose Makefile includes this one.

ROOT := $(abspath $(dir $(lastword $(MAKEFILE_LIST)))..)
PYTHON ?= python3
TOOLS := $(ROOT)/target/venv-build

# What the runtime provided.al2023 has. The build machine's own glibc may be newer, and then nothing would start.
GLIBC := 2.34

PACKAGES := $(notdir $(patsubst %/,%,$(dir $(wildcard $(ROOT)/functions/*/Cargo.toml))))
# Where cargo-lambda moves each binary, as NAME/bootstrap.
BINARIES := $(ROOT)/target/lambda/$(ARCHITECTURE)

# The one line that a new function adds.
build-ReapInstances: NAME := reap-instances
build-ReapVolumes: NAME := reap-volumes
build-ReapSagemaker: NAME := reap-sagemaker
build-EnforceBudgets: NAME := enforce-budgets
build-RunJobs: NAME := run-jobs
build-SendReport: NAME := send-report
build-Reply: NAME := reply

# What run-jobs carries beside itself: the agent for the machines of jobs, whatever it runs on itself. It is no function, and its
# machines may be older than Lambda's, so cargo-zigbuild builds it, for any processor. Each is built for the
# oldest glibc of an image that a job may name (Amazon Linux 2), and with glibc, so that it can load NVIDIA's library. It has a
# target directory of its own: what was compiled for one glibc must not be linked for another.
AGENT_GLIBC := 2.26
AGENTS := $(ROOT)/target/agent
AGENT_TARGETS := x86_64:x86_64-unknown-linux-gnu arm64:aarch64-unknown-linux-gnu
RUST_TARGETS := $(foreach one,$(AGENT_TARGETS),$(lastword $(subst :, ,$(one))))
AGENT_BINARIES := $(foreach one,$(RUST_TARGETS),$(AGENTS)/$(one)/release/agent)
build-RunJobs: CARRIED := $(AGENT_TARGETS)
build-RunJobs: $(if $(CURFEW_COMPILED),,agents)

build-%: $(if $(CURFEW_COMPILED),,compile)
	@test -n "$(NAME)" || { echo "deploy/package.mk does not say which binary $* is" >&2; exit 1; }
	cp "$(BINARIES)/$(NAME)/bootstrap" "$(ARTIFACTS_DIR)/bootstrap"
	$(foreach one,$(CARRIED),cp "$(AGENTS)/$(lastword $(subst :, ,$(one)))/release/agent" \
		"$(ARTIFACTS_DIR)/agent-$(firstword $(subst :, ,$(one)))" &&) true

# rustup adds the targets of rust-toolchain.toml, unless it may install nothing by itself, or Rust came by another way.
define check_targets
	@for target in $(1); do test -d "$$(cd "$(ROOT)" && rustc --print sysroot)/lib/rustlib/$$target/lib" || { \
		echo "Rust cannot compile for $$target yet. Run: rustup target add $$target" >&2; exit 1; }; done
endef

# cargo-lambda compiles for what Lambda has: AVX2 on x86_64, Graviton2 on arm64. It takes strip, lto, codegen-units and panic from the
# release profile of Cargo.toml, and sets its own (panic = "abort") only where that says nothing. The target directory is in the
# environment: --target-dir fails, because cargo-lambda hands it to `cargo metadata`, which has no such option.
.PHONY: compile
compile: $(TOOLS)/.installed
	$(call check_targets,$(RUST_TARGET))
	cd "$(ROOT)" && PATH="$(TOOLS)/bin:$$PATH" CARGO_TARGET_DIR="$(ROOT)/target" cargo lambda build --release --locked \
		--lambda-dir "$(BINARIES)" --target $(RUST_TARGET).$(GLIBC) $(addprefix --package ,$(PACKAGES))

.PHONY: agents
agents: $(TOOLS)/.installed
	$(call check_targets,$(RUST_TARGETS))
	cd "$(ROOT)" && PATH="$(TOOLS)/bin:$$PATH" cargo zigbuild --release --locked --target-dir "$(AGENTS)" \
		$(foreach one,$(RUST_TARGETS),--target $(one).$(AGENT_GLIBC)) --package agent
	$(PYTHON) "$(ROOT)/deploy/baseline.py" --glibc $(AGENT_GLIBC) $(AGENT_BINARIES)

$(TOOLS)/.installed: $(ROOT)/deploy/requirements.txt
	$(PYTHON) -m venv --clear "$(TOOLS)"
	"$(TOOLS)/bin/pip" install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary :all: --requirement "$<"
	touch "$@"
