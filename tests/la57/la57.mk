# SPDX-License-Identifier: BSD-2-Clause
#
# Builds build/la57/la57.efi, which starts PMUvisor with 5-level paging. Included by tests/tests.mk, so
# paths are from the top.

LA57_EFI = $(BUILD)/la57/la57.efi
LA57_OBJECTS = $(BUILD)/tests/la57/main.o $(BUILD)/tests/la57/switch.asm.o $(BUILD)/lib/string.o

.PHONY: la57-image
la57-image: $(LA57_EFI)

$(BUILD)/la57/la57.elf: $(LA57_OBJECTS)

-include $(LA57_OBJECTS:.o=.d)
