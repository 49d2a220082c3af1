# SPDX-License-Identifier: BSD-2-Clause
#
# The demo of the trace of exits; included by the Makefile, so paths are from the top.
#
#   make trace [TRACE_CPUS=N]   boots Linux under trace=flow with a load, and writes what its trace
#                               tells to build/trace-demo/: the trace, CTF, Chrome's JSON, a page

TRACE_CPUS ?= 1
TRACE_OUT ?= $(BUILD)/trace-demo

.PHONY: trace trace-all

# Two steps, so that the second make sees the packages that the first one installed.
trace:
	@testbed/deps.sh build run trace
	@$(MAKE) --no-print-directory trace-all

# The system's Python: python3-bt2 is a package of Debian's.
trace-all: $(EFI)
	@/usr/bin/python3 -B experiments/flow/analysis/demo.py --cpus $(TRACE_CPUS) $(TRACE_OUT)
