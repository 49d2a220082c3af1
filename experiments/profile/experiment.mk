# SPDX-License-Identifier: BSD-2-Clause
#
# Included by the Makefile, so paths are from the top. The image of the tests: the job sampling, and its loads.
# Addresses are in the lists of samples: they are not PIE.
PROGRAM_shorts = experiments/profile/guest/shorts.c
$(BUILD)/programs/shorts: PROGRAM_LDFLAGS = -no-pie
$(BUILD)/programs/experiments/profile/guest/shorts.o: private PROGRAM_CFLAGS += -fno-pie -fcf-protection=none
IMAGE_profile = $(WITH_PERF) busybox workloads/common.sh=programs/workloads/common.sh \
    $(foreach name,traced shorts,$(name)=$(BUILD)/programs/$(name)) \
    jobs/sampling=experiments/profile/guest/sampling.sh
