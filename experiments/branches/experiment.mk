# SPDX-License-Identifier: BSD-2-Clause
#
# What the unit tests of this experiment ask for; included by the Makefile, so paths are from the top.

EXPERIMENT_UNIT_SOURCES += experiments/branches/guest/list.c experiments/branches/guest/output.c

# branchtrace and branchfuzz, jobs of these names, and their kernel module. Addresses are in the lists:
# the same in each run, so they are not PIE.
BRANCHES_GUEST = experiments/branches/guest
PROGRAM_branchtrace = $(sort $(wildcard $(BRANCHES_GUEST)/*.c)) programs/command_line.c $(BRANCHES_GUEST)/stretch.asm
BRANCHES_FUZZ = $(addprefix $(BRANCHES_GUEST)/,list.c output.c trace.c fuzz/drivers.c stretch.asm) \
    programs/command_line.c programs/payload/support.c
PROGRAM_branchfuzz = $(BRANCHES_FUZZ) $(addprefix $(BRANCHES_GUEST)/fuzz/,fuzz.c main.c targets.c)
PROGRAM_branchusb = $(BRANCHES_FUZZ) $(sort $(wildcard $(BRANCHES_GUEST)/fuzz/usb*.c))
$(BUILD)/programs/$(BRANCHES_GUEST)/%.o: private PROGRAM_CFLAGS += -g -fno-pie -I$(BRANCHES_GUEST)
$(BUILD)/branchtrace/%/branchtrace.ko: $(wildcard $(BRANCHES_GUEST)/module/*) $(BRANCHES_GUEST)/abi.h \
    programs/measure/region.h $(BUILD)/payload/kernel-%.txt programs/images.mk
	$(kbuild)
IMAGE_branchtrace = $(IMAGE_initrd) jobs/branchtrace=$(BUILD)/programs/branchtrace \
    jobs/branchfuzz=$(BUILD)/programs/branchfuzz lib/modules/branchtrace.ko=$(BUILD)/branchtrace/%/branchtrace.ko
# The same with drivers, which the fuzzer's own image has besides.
IMAGE_branchdrivers = $(IMAGE_branchtrace) jobs/branchdrivers@branchfuzz \
    $(foreach name,tun loop fuse cuse uhid dm-mod,disk:$(name))
# And with drivers of USB devices, which Debian's stock kernel alone has.
IMAGE_branchusb = $(IMAGE_initrd) jobs/branchusb=$(BUILD)/programs/branchusb \
    $(filter lib/%,$(IMAGE_branchtrace)) $(foreach name,vhci-hcd ar5523 btusb pn533_usb rsi_usb \
    radio-si470x-usb snd-usb-usx2y snd-usb-audio,disk:$(name))
# The measurements have the others, too.
IMAGE_bench += $(filter jobs/% lib/% disk:%,$(IMAGE_branchdrivers))
