# SPDX-License-Identifier: BSD-2-Clause
#
# What several experiments share; included by the Makefile, so paths are from the top.
$(addprefix $(BUILD)/experiments/shared/hypervisor/,experiment.o ring.o cr3.o): private CFLAGS += $(SMALL)
# What the unit tests here ask for.
EXPERIMENT_UNIT_SOURCES += $(addprefix experiments/shared/guest/,ring_reader.c trace_file.c)
# And their programs in the guest.
$(BUILD)/programs/experiments/%.o: private PROGRAM_CFLAGS += -Iexperiments/shared/guest

# The demos of the traces. Two steps, so that the second make sees the packages that the first one
# installed. NAME-all uses the system's Python: python3-bt2 is a package of Debian's.
$(DEMOS):
	@testbed/deps.sh build run trace
	@$(MAKE) --no-print-directory $@-all
