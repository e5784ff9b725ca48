# Builds the guests' programs of one folder and those that all share (this file's folder): static, so
# that they run in any guest. The including Makefile sets OUT; every *.c file is one program.
SHARED := $(dir $(lastword $(MAKEFILE_LIST)))
CFLAGS ?= -O2 -Wall -Wextra -Wno-unused-parameter
PROGRAMS := $(sort $(basename $(notdir $(wildcard *.c $(SHARED)*.c))))
vpath %.c $(SHARED)

all: $(PROGRAMS:%=$(OUT)/%)

$(OUT)/%: %.c $(SHARED)lib.h
	@mkdir -p $(OUT)
	$(CC) $(CFLAGS) -I$(SHARED) -static -pthread -o $@ $<

.PHONY: all
