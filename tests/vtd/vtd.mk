# SPDX-License-Identifier: BSD-2-Clause
#
# Builds build/vtd/vtd.efi, the test of the VT-d code: the hypervisor's own objects with another
# program around them. Included by tests/tests.mk, so paths are from the top.

VTD_EFI = $(BUILD)/vtd/vtd.efi
VTD_OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/vtd/*.c) tests/firmware/firmware.c mm/vtd.c mm/dmar.c mm/ept.c \
    mm/mtrr.c mm/page.c lib/acpi.c lib/acpi_sleep.c lib/format.c lib/refusal.c lib/string.c \
    console/log.c console/log_ring.c console/serial.c guest/acpi_edit.c)

.PHONY: vtd-image
vtd-image: $(VTD_EFI)

$(BUILD)/vtd/vtd.elf: $(VTD_OBJECTS)

-include $(VTD_OBJECTS:.o=.d)
