# SPDX-License-Identifier: BSD-2-Clause
#
# The memory trace, and its demo; included by the Makefile, so paths are from the top.
#
#   make memtrace               boots Linux under memtrace=writes, where a small program is traced, and
#                               writes to build/memtrace-demo/: the trace, CTF, a feed, a page

NEEDS_memory = shared
# What runs where a trace begins.
$(addprefix $(BUILD)/experiments/memory/hypervisor/,experiment.o memory.o memory_map.o ept_copy.o \
    lend.o): private CFLAGS += $(SMALL)

SHORT_BOOTS += experiments/memory/tests/test_memory_kernel.py::test_writes
MEMTRACE_OUT ?= $(BUILD)/memtrace-demo

.PHONY: memtrace memtrace-all
DEMOS += memtrace
memtrace-all: $(LAB)
	@$(PYTHON) -m experiments.memory.analysis.memory_demo $(MEMTRACE_OUT)

# The jobs memdemo, with the guest's tool and the program that it traces, memtruth, and memstores, which
# wants perf.
MEMORY_GUEST = experiments/memory/guest
PROGRAM_memtrace = $(sort $(wildcard $(MEMORY_GUEST)/*.c)) \
    $(addprefix experiments/shared/guest/,hypervisor.c ring_reader.c trace_file.c traced_rings.c)
PROGRAM_memdemo = $(MEMORY_GUEST)/demo/main.c \
    $(addprefix experiments/shared/guest/,hand_over.c print_file.c hypervisor.c) programs/command_line.c
PROGRAM_matrix = $(MEMORY_GUEST)/demo/matrix.c
PROGRAM_fetches = $(MEMORY_GUEST)/demo/fetches.c
PROGRAM_memtruth = $(sort $(wildcard $(MEMORY_GUEST)/truth/*.c)) programs/command_line.c \
    experiments/shared/guest/hypervisor.c
MEMORY_JOBS = $(foreach name,memtrace memdemo matrix fetches,jobs/$(name)=$(BUILD)/programs/$(name))
IMAGE_memdemo = $(IMAGE_initrd) $(MEMORY_JOBS)
IMAGE_memtruth = $(IMAGE_initrd) jobs/memtruth=$(BUILD)/programs/memtruth
IMAGE_memstores = $(IMAGE_tools) $(MEMORY_JOBS) jobs/memstores=$(MEMORY_GUEST)/demo/memstores.sh
