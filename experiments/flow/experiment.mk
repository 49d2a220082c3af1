# SPDX-License-Identifier: BSD-2-Clause
#
# The trace of exits; included by the Makefile, so paths are from the top.
NEEDS_flow = shared
# What runs where a level changes.
$(addprefix $(BUILD)/experiments/flow/hypervisor/,experiment.o level.o): CFLAGS += -Os
