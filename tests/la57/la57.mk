# SPDX-License-Identifier: BSD-2-Clause
#
# Builds build/la57/la57.efi, which starts PMUvisor with 5-level paging. Included by tests/tests.mk, so
# paths are from the top.

LA57_EFI = $(BUILD)/la57/la57.efi
LA57_OBJECTS = $(BUILD)/tests/la57/main.o $(BUILD)/tests/la57/switch.asm.o $(BUILD)/lib/string.o

.PHONY: la57-image
la57-image: $(LA57_EFI)

$(BUILD)/tests/la57/main.o: CFLAGS += $(BOOT_CFLAGS)

$(BUILD)/la57/la57.elf: $(LA57_OBJECTS) linker.ld
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(LD) $(LDFLAGS) -o $@ $(GNU_EFI_LIB)/crt0-efi-x86_64.o $(LA57_OBJECTS) \
	    -L $(GNU_EFI_LIB) -lgnuefi

$(LA57_EFI): $(BUILD)/la57/la57.elf
	$(call say,EFI,$@)
	$(Q)$(OBJCOPY) --strip-all -j .text -j .rodata -j .data -j .bss -j .dynamic -j .rela -j .reloc \
	    --target efi-app-x86_64 $< $@

-include $(LA57_OBJECTS:.o=.d)
