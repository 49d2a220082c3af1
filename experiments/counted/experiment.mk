# SPDX-License-Identifier: BSD-2-Clause
#
# Included by the Makefile, so paths are from the top. What is kept and drawn is of its tests' boots.
.PHONY: counted

counted:
	@DRAW=1 FULL=1 $(MAKE) --no-print-directory e2e T=counted/

# What starts the test kernel as Xen's dom0.
PVH_CFLAGS = -m32 -std=gnu11 -O2 $(WARNINGS) -ffreestanding -fno-pic -fno-stack-protector -fcf-protection=none \
    -fno-asynchronous-unwind-tables -mgeneral-regs-only -idirafter /usr/include/x86_64-linux-gnu
PVH_LDFLAGS = -nostdlib -static -no-pie -Wl,--build-id=none -Wl,-Ttext-segment=0x4000000 -Wl,-e,pvh_entry
$(BUILD)/counted/pvh.elf: experiments/counted/tests/xen/pvh.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(PVH_CFLAGS) $(PVH_LDFLAGS) -o $@ $<
