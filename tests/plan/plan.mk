# SPDX-License-Identifier: BSD-2-Clause
#
# Builds build/plan/plan.efi, what PMUvisor would make of a machine without VMX. Included by
# tests/tests.mk, so paths are from the top.

PLAN_EFI = $(BUILD)/plan/plan.efi
PLAN_OBJECTS = $(patsubst %.c,$(BUILD)/%.o,tests/plan/main.c tests/firmware/firmware.c boot/acpi.c guest/e820.c mm/ept.c \
    mm/mtrr.c mm/page.c lib/acpi.c lib/acpi_sleep.c lib/format.c lib/refusal.c lib/string.c \
    console/log_ring.c console/log.c console/serial.c)

.PHONY: plan-image
plan-image: $(PLAN_EFI)

$(BUILD)/plan/plan.elf: $(PLAN_OBJECTS)

-include $(PLAN_OBJECTS:.o=.d)
