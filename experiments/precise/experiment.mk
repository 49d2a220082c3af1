# SPDX-License-Identifier: BSD-2-Clause
#
# Included by the Makefile, so paths are from the top. The image of the tests, and the job pebs with its
# programs.
PROGRAM_region = experiments/precise/guest/region.c
PROGRAM_br_instr = experiments/precise/guest/br_instr.c
$(BUILD)/programs/region: PROGRAM_LDFLAGS = -s
$(BUILD)/programs/br_instr: PROGRAM_LDFLAGS = -nostdlib -no-pie
BR_INSTR_CFLAGS = -O1 -ffreestanding -fno-pie -fno-stack-protector -fcf-protection=none -fno-asynchronous-unwind-tables
$(BUILD)/programs/experiments/precise/guest/br_instr.o: private PROGRAM_CFLAGS += $(BR_INSTR_CFLAGS)
$(BUILD)/programs/br_other: experiments/precise/guest/br_instr.c $(BUILD)/programs/flags
	$(call say,CC,$<)
	$(Q)$(CC) $(PROGRAM_CFLAGS) $(BR_INSTR_CFLAGS) -DSHIFTS=5 -nostdlib -no-pie -o $@ $<
IMAGE_precise = $(IMAGE_tools) jobs/pebs=experiments/precise/guest/pebs.sh \
    $(foreach name,region br_instr,$(name)=$(BUILD)/programs/$(name))
# Programs of which nobody has chosen the shares.
IMAGE_precise-real = $(IMAGE_precise) .=$(BUILD)/real/some jobs/pebs_real=experiments/precise/guest/pebs_real.sh \
    br_other=$(BUILD)/programs/br_other
# KVM's host, which samples or counts at the same time.
KVM_precise = deb:usr/bin/perf busybox jobs/pebs_host=experiments/precise/guest/pebs_host.sh
# The measurements have it all, too.
IMAGE_bench += $(filter-out $(IMAGE_tools),$(IMAGE_precise))
