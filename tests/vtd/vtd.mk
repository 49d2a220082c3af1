# SPDX-License-Identifier: BSD-2-Clause
#
# Builds build/vtd/BOOTX64.EFI, the test of the VT-d code: the hypervisor's own objects with another
# program around them. Included by tests/tests.mk, so paths are from the top.

VTD_EFI = $(BUILD)/vtd/BOOTX64.EFI
VTD_OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/vtd/*.c) mm/vtd.c mm/dmar.c mm/ept.c \
    mm/mtrr.c mm/page.c lib/acpi.c lib/acpi_sleep.c lib/format.c lib/refusal.c lib/string.c \
    console/log.c console/kept.c console/serial.c guest/acpi_edit.c)

.PHONY: vtd-image
vtd-image: $(VTD_EFI)

$(BUILD)/tests/vtd/main.o: CFLAGS += $(BOOT_CFLAGS)

$(BUILD)/vtd/vtd.elf: $(VTD_OBJECTS) linker.ld
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(LD) $(LDFLAGS) -o $@ $(GNU_EFI_LIB)/crt0-efi-x86_64.o $(VTD_OBJECTS) \
	    -L $(GNU_EFI_LIB) -lgnuefi

$(VTD_EFI): $(BUILD)/vtd/vtd.elf
	$(call say,EFI,$@)
	$(Q)$(OBJCOPY) --strip-all -j .text -j .rodata -j .data -j .bss -j .dynamic -j .rela -j .reloc \
	    --target efi-app-x86_64 $< $@

-include $(VTD_OBJECTS:.o=.d)
