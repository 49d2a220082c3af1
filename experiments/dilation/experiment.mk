# SPDX-License-Identifier: BSD-2-Clause
#
# Included by the Makefile, so paths are from the top. The picture is of the data of an earlier run.
NEEDS_dilation = memory shared

.PHONY: dilation

dilation:
	@FULL=1 $(MAKE) --no-print-directory e2e T=dilation/

PROGRAM_dilation = experiments/dilation/guest/main.c experiments/shared/guest/hypervisor.c programs/command_line.c
IMAGE_dilation = $(IMAGE_initrd) jobs/dilation=$(BUILD)/programs/dilation
