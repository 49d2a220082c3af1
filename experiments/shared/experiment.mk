# SPDX-License-Identifier: BSD-2-Clause
#
# What several experiments share; included by the Makefile, so paths are from the top.
$(addprefix $(BUILD)/experiments/shared/hypervisor/,experiment.o ring.o cr3.o): private CFLAGS += $(SMALL)
# What the unit tests here ask for.
EXPERIMENT_UNIT_SOURCES += $(addprefix experiments/shared/guest/,ring_reader.c trace_file.c)
# And their programs in the guest.
$(BUILD)/programs/experiments/%.o: private PROGRAM_CFLAGS += -Iexperiments/shared/guest
