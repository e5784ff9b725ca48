# Builds the guests' programs of one folder and those that all share (this file's folder): static, so
# that they run in any guest. The including Makefile sets OUT; every *.c file is one program.
#
# OF_THE_LAB: programs that the lab itself builds and runs (aplomb_lab/programs.py). They need
# libraries that the others do not, so `all` leaves them out.
SHARED := $(dir $(lastword $(MAKEFILE_LIST)))
CFLAGS ?= -O2 -Wall -Wextra -Wno-unused-parameter
OF_THE_LAB := rotating
PROGRAMS := $(filter-out $(OF_THE_LAB),$(sort $(basename $(notdir $(wildcard *.c $(SHARED)*.c)))))
vpath %.c $(SHARED)

all: $(PROGRAMS:%=$(OUT)/%)

$(OUT)/%: %.c $(wildcard $(SHARED)*.h)
	@mkdir -p $(OUT)
	$(CC) $(CFLAGS) -I$(SHARED) -static -pthread -o $@ $< $(LDLIBS)

$(OUT)/rotating: LDLIBS := -luring -lm

.PHONY: all
