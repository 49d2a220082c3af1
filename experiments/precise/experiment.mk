# SPDX-License-Identifier: BSD-2-Clause
#
# Included by the Makefile, so paths are from the top. The image of the tests, and the job pebs with its
# programs.
PROGRAM_region = experiments/precise/guest/region.c
PROGRAM_br_instr = experiments/precise/guest/br_instr.c
$(BUILD)/programs/region: PROGRAM_LDFLAGS = -s
$(BUILD)/programs/br_instr: PROGRAM_LDFLAGS = -nostdlib -no-pie
$(BUILD)/programs/experiments/precise/guest/br_instr.o: private PROGRAM_CFLAGS += -O1 -ffreestanding -fno-pie \
    -fno-stack-protector -fcf-protection=none -fno-asynchronous-unwind-tables
IMAGE_precise = $(IMAGE_tools) jobs/pebs=experiments/precise/guest/pebs.sh \
    $(foreach name,region br_instr,$(name)=$(BUILD)/programs/$(name))
# KVM's host, which samples at the same time.
KVM_precise = deb:usr/bin/perf busybox jobs/pebs_host=experiments/precise/guest/pebs_host.sh
# The measurements have it all, too.
IMAGE_bench += $(filter-out $(IMAGE_tools),$(IMAGE_precise))
