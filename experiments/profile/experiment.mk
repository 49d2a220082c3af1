# SPDX-License-Identifier: BSD-2-Clause
#
# Included by the Makefile, so paths are from the top. The image of the tests: the job sampling, its loads, and
# the kernel module that is one.
PROFILE_GUEST = experiments/profile/guest
PROGRAM_shorts = $(PROFILE_GUEST)/shorts.c
$(BUILD)/programs/shorts: PROGRAM_LDFLAGS = -no-pie
$(BUILD)/programs/$(PROFILE_GUEST)/shorts.o: private PROGRAM_CFLAGS += -fno-pie -fcf-protection=none
$(BUILD)/profile/%/closed.ko: $(wildcard $(PROFILE_GUEST)/module/*) programs/measure/region.h $(BUILD)/payload/kernel-%.txt \
    programs/images.mk
	$(kbuild)
PACKAGES_profile = sqlite3 glpk-utils nginx
DEBIAN_profile = usr/bin/sqlite3 usr/bin/glpsol usr/sbin/nginx
$(BUILD)/profile/in: experiments/counters/guest/real/inputs.py
	$(Q)rm -rf $@.new && mkdir -p $@.new && /usr/bin/python3 -B $< 1 $@.new && rm -rf $@ && mv $@.new $@
IMAGE_profile = $(WITH_PERF) busybox workloads/common.sh=programs/workloads/common.sh \
    workloads/nginx.conf=programs/workloads/nginx.conf $(foreach name,traced shorts marked,$(name)=$(BUILD)/programs/$(name)) \
    etc/passwd=$(BUILD)/payload/passwd etc/group=$(BUILD)/payload/group \
    in=$(BUILD)/profile/in .=$(BUILD)/debian/profile \
    lib/modules/closed.ko=$(BUILD)/profile/%/closed.ko jobs/sampling=$(PROFILE_GUEST)/sampling.sh
