# SPDX-License-Identifier: BSD-2-Clause
#
# The trace of exits, and its demo; included by the Makefile, so paths are from the top.
#
#   make trace [TRACE_CPUS=N]   boots Linux under trace=flow with a load, and writes what its trace
#                               tells to build/trace-demo/: the trace, CTF, Chrome's JSON, a page

NEEDS_flow = shared
# What runs where a level changes.
$(addprefix $(BUILD)/experiments/flow/hypervisor/,experiment.o level.o): CFLAGS += -Os

TRACE_CPUS ?= 1
TRACE_OUT ?= $(BUILD)/trace-demo

.PHONY: trace trace-all

# Two steps, so that the second make sees the packages that the first one installed.
trace:
	@testbed/deps.sh build run trace
	@$(MAKE) --no-print-directory trace-all

# The system's Python: python3-bt2 is a package of Debian's.
trace-all: $(LAB)
	@/usr/bin/python3 -B experiments/flow/analysis/demo.py --cpus $(TRACE_CPUS) $(TRACE_OUT)
