# aplomb: build, try, test, install. `make help` lists the targets.
#
# `make run` and `make test` do their own set-up (scripts/setup installs missing packages by apt; as root,
# or through sudo) and work on a fresh Debian 12 or 13 machine. Everything else is built on those.

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

TARGET := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
BINARY := target/$(TARGET)/release/aplomb
PYTHON := .venv/bin/python
PREFIX ?= /usr
NAME ?=
ARGS ?=

## run: the main job: aplomb on this machine, or, if its kernel has no sched_ext, the demonstration in the lab
run: setup
	@$(MAKE) build
	@scripts/run $(ARGS)

## test: all tests: units, properties, fuzz targets (short), the lab, a small experiment
test: setup
	@scripts/test $(ARGS)

## build: the static binaries: aplomb (daemon and command line) and aplomb-sim (the simulator)
build:
	@cargo build --release --config .cargo/static.toml --target $(TARGET) -p aplomb -p aplomb-sim
	@ln -sfn $(TARGET)/release/aplomb target/aplomb
	@ln -sfn $(TARGET)/release/aplomb-sim target/aplomb-sim

## demo: the movie through a fork bomb in the lab, under the stock scheduler and under aplomb
demo: setup
	@$(MAKE) build
	@scripts/run --demo $(ARGS)

## experiment: one experiment, e.g. make experiment NAME=redline/fork-bomb-50 (ARGS=--quick for a short one)
experiment: setup
	@test -n "$(NAME)" || { echo "which one? make experiment NAME=…:"; $(PYTHON) -m experiments list; exit 2; }
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

## setup: what `run` and `test` need on this machine
setup:
	@scripts/setup

## install: program, specs, unit, man page, completions (PREFIX=/usr DESTDIR=)
install:
	@scripts/install "$(BINARY)" "$(DESTDIR)" "$(PREFIX)"

## clean: remove what was built here (the lab's cache: lab/lab clean --all)
clean:
	@rm -rf target .venv

help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST) | awk -F': ' '{ printf "  %-12s %s\n", $$1, substr($$0, length($$1) + 3) }'

.PHONY: run test build demo experiment experiments peers report lab check format setup install clean help
