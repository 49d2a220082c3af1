# SPDX-License-Identifier: BSD-2-Clause
#
# Included by the Makefile, so paths are from the top. It needs no other experiment. The job share is its load.
NEEDS_demand =
# The image's size has a limit.
$(addprefix $(BUILD)/experiments/demand/hypervisor/,experiment.o counting.o second_user.o): private CFLAGS += $(SMALL)

PROGRAM_share = experiments/demand/guest/share.c programs/payload/support.c programs/command_line.c
IMAGE_demand = $(IMAGE_initrd) jobs/share=$(BUILD)/programs/share
