# SPDX-License-Identifier: BSD-2-Clause
#
# Builds build/pmuvisor-check, a static program for a running Linux: the image's own sources, and
# functions of this program in place of instructions (tests/host). Included by metal/metal.mk; paths
# are from the top.
#
#   make pmuvisor-check    the program; metal/check/README.md

CHECK_PROGRAM = $(BUILD)/pmuvisor-check
CHECK = $(BUILD)/check
CHECK_CFLAGS = -std=gnu11 -O2 $(WARNINGS) -fno-strict-aliasing -ffunction-sections -fdata-sections \
               -Itests/host -Iinclude -I.
CHECK_LDFLAGS = -static -Wl,--gc-sections,-z,muldefs
# start.c and guest.c include these.
CHECK_INCLUDED = vmx/start/machine.c vmx/start/bring_up.c guest/linux.c
CHECK_OWN = $(sort $(wildcard metal/check/*.c))
CHECK_IMAGE = $(filter-out $(FIRMWARE_SOURCES) $(OFFSETS_SOURCE) $(CHECK_INCLUDED) tests/%,\
    $(C_SOURCES)) tests/host/instructions.c
CHECK_OWN_OBJECTS = $(patsubst %.c,$(CHECK)/%.o,$(CHECK_OWN))
CHECK_IMAGE_OBJECTS = $(patsubst %.c,$(CHECK)/%.o,$(CHECK_IMAGE))

.PHONY: pmuvisor-check
pmuvisor-check:
	@testbed/deps.sh build
	@$(MAKE) --no-print-directory $(CHECK_PROGRAM)

$(CHECK)/%.o: %.c $(CHECK)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CHECK_CFLAGS) -MMD -MP -c -o $@ $<

$(CHECK)/flags: FORCE metal/check/check.mk
	@mkdir -p $(@D)
	@echo '$(CC) $(CHECK_CFLAGS)' | cmp -s - $@ || echo '$(CC) $(CHECK_CFLAGS)' > $@

$(CHECK)/image.a: $(CHECK_IMAGE_OBJECTS)
	@rm -f $@
	$(Q)$(AR) rc $@ $^

# Where both define a function, the first one is taken: this program's own.
$(CHECK_PROGRAM): $(CHECK_OWN_OBJECTS) $(CHECK)/image.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CHECK_LDFLAGS) -o $@ $^

-include $(CHECK_OWN_OBJECTS:.o=.d) $(CHECK_IMAGE_OBJECTS:.o=.d)

# What runs it in the tests' initramfs.
CHECK_JOB = $(BUILD)/tests/check-job
$(CHECK_JOB): metal/tests/job.c $(CHECK)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) -std=gnu11 -O2 $(WARNINGS) -static -s -o $@ $<
