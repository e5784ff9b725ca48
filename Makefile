# aplomb: build, try, test, install. `make help` lists the targets.
#
# `make run` and `make test` do their own set-up: on Debian 12 and 13 scripts/setup installs missing
# packages by apt (as root, or through sudo), elsewhere it names them.

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Asked for when something is built: installing needs no Rust, and root often has none.
TARGET = $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
# Without libelf.a (Arch, NixOS) the binaries need this machine's libraries: no lab can run them.
STATIC = $(if $(findstring /,$(shell cc -print-file-name=libelf.a)),--config .cargo/static.toml)
PYTHON := .venv/bin/python
PREFIX ?= /usr
NAME ?=
ARGS ?=

## run: aplomb on this machine; if its kernel has no sched_ext, the demonstration in the lab
run: setup-run
	@$(MAKE) build
	@scripts/run $(ARGS)

## test: the tests: linters, units, properties, the lab, the demonstration
test: setup
	@scripts/test $(ARGS)

## test-full: all tests, also fuzz targets and all that takes long
test-full: setup
	@scripts/test --full $(ARGS)

## selftests: the kernel's own tests of cgroups, under its scheduler and under aplomb
selftests: setup
	@$(MAKE) build
	@lab/selftests $(ARGS)

## build: the static binaries: aplomb (daemon and command line) and aplomb-sim (the simulator)
build:
	@cargo build --release $(STATIC) --target $(TARGET) -p aplomb -p aplomb-sim
	@ln -sfn $(TARGET)/release/aplomb target/aplomb
	@ln -sfn $(TARGET)/release/aplomb-sim target/aplomb-sim

## demo: the movie through a fork bomb in the lab, under the stock scheduler and under aplomb
demo: setup-run
	@$(MAKE) build
	@scripts/run --demo $(ARGS)

## experiment: one experiment: make experiment NAME=redline/fork-bomb-50 (ARGS=--quick: short)
experiment: setup
	@test -n "$(NAME)" || \
		{ echo "make experiment NAME=…, one of:"; $(PYTHON) -m experiments list; exit 2; }
	@$(MAKE) build
	@$(PYTHON) -m experiments run $(NAME) $(ARGS)

## experiments: list them
experiments: setup
	@$(PYTHON) -m experiments list

## peers: build scx_bpfland and scx_lavd from their published crates, for comparison (10 minutes)
peers: setup
	@experiments/peers/build

## report: one page of all results: results/report.html
report: setup
	@$(PYTHON) -m experiments report

## lab: a command in the lab, e.g. make lab ARGS='--machine smp --out /tmp/out -- uname -a'
lab: setup
	@lab/lab run $(ARGS)

## check: formatters and linters, as they must be before a commit
check:
	@scripts/check

## format: let the formatters change the files
format:
	@cargo fmt --all
	@scripts/check --fix

## setup: what building and testing need on this machine
setup:
	@scripts/setup test

setup-run:
	@scripts/setup

## install: programs, specs, unit, manual, completions (PREFIX=/usr DESTDIR=), after make build
install:
	@DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" scripts/install target/aplomb

## uninstall: remove what `make install` put; /etc/aplomb stays
uninstall:
	@DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" scripts/install target/aplomb --uninstall

## clean: remove what was built here (the lab's cache: lab/lab clean --all)
clean:
	@rm -rf target .venv

help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST) | \
		awk -F': ' '{ printf "  %-12s %s\n", $$1, substr($$0, length($$1) + 3) }'

.PHONY: run test test-full selftests build demo experiment experiments peers report lab check format
.PHONY: setup setup-run install uninstall clean help
