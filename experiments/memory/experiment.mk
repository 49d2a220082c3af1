# SPDX-License-Identifier: BSD-2-Clause
#
# The memory trace; included by the Makefile, so paths are from the top.
NEEDS_memory = shared
# What runs where a trace begins.
$(addprefix $(BUILD)/experiments/memory/hypervisor/,experiment.o memory.o memory_map.o ept_copy.o \
    lend.o): CFLAGS += -Os
