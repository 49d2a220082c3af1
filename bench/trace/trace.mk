# SPDX-License-Identifier: BSD-2-Clause
#
# The demos of the traces; included by tests/tests.mk, so paths are from the top.
#
#   make trace [TRACE_CPUS=N]   boots Linux under trace=flow with a load, and writes what its trace
#                               tells to build/trace/: the trace, CTF, Chrome's JSON, a page
#   make memtrace               boots Linux under memtrace=writes, where a small program is traced, and
#                               writes to build/memtrace-demo/: the trace, CTF, a feed, a page

TRACE_CPUS ?= 1
TRACE_OUT ?= $(BUILD)/trace-demo
MEMTRACE_OUT ?= $(BUILD)/memtrace-demo

.PHONY: trace trace-all memtrace memtrace-all

# Two steps, so that the second make sees the packages that the first one installed.
trace:
	@testbed/deps.sh build run trace
	@$(MAKE) --no-print-directory trace-all

# The system's Python: python3-bt2 is a package of Debian's.
trace-all: $(LAB)
	@/usr/bin/python3 -B bench/trace/demo.py --cpus $(TRACE_CPUS) $(TRACE_OUT)

memtrace:
	@testbed/deps.sh build run trace
	@$(MAKE) --no-print-directory memtrace-all

memtrace-all: $(LAB)
	@/usr/bin/python3 -B bench/trace/memory_demo.py $(MEMTRACE_OUT)
