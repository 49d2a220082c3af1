# SPDX-License-Identifier: BSD-2-Clause
#
# Builds build/bench.bzImage, the bench kernel, and the broken hypervisors that its tests run on.
# Included by tests/tests.mk, so paths are from the top.

BENCH_BUILD = $(BUILD)/bench
BENCH_IMAGE = $(BUILD)/bench.bzImage
BENCH_C = $(sort $(wildcard tests/kernel/*.c programs/measure/*.c))
BENCH_ASM = $(sort $(wildcard tests/kernel/*.asm))
# Shared with the hypervisor, compiled anew for another address.
BENCH_SHARED = lib/format.c lib/string.c lib/acpi.c lib/acpi_sleep.c boot/acpi.c console/log.c console/serial.c
BENCH_OBJECTS = $(patsubst %.c,$(BENCH_BUILD)/%.o,$(BENCH_C) $(BENCH_SHARED)) \
                $(patsubst %.asm,$(BENCH_BUILD)/%.asm.o,$(BENCH_ASM))
BENCH_CFLAGS = -std=c11 -O2 $(WARNINGS) -ffreestanding -fno-stack-protector -fcf-protection=none \
               -mgeneral-regs-only -mno-red-zone -fno-pie -mcmodel=kernel -fno-common \
               -fno-asynchronous-unwind-tables -fno-unwind-tables -Iinclude -I.

.PHONY: bench-image
bench-image: $(BENCH_IMAGE)

$(BENCH_BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(BENCH_CFLAGS)' | cmp -s - $@ || echo '$(CC) $(BENCH_CFLAGS)' > $@

$(BENCH_BUILD)/%.o: %.c $(BENCH_BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(BENCH_CFLAGS) -MMD -MP -c -o $@ $<

$(BENCH_BUILD)/layout.inc: tests/kernel/layout.h
	@mkdir -p $(@D)
	$(Q)sed -n 's/^#define \([A-Z0-9_]*\) \([0-9a-fx]\{1,\}\)\( .*\)\{0,1\}$$/%define \1 \2/p' $< > $@

$(BENCH_BUILD)/%.asm.o: %.asm $(BENCH_BUILD)/layout.inc
	@mkdir -p $(@D)
	$(call say,NASM,$<)
	$(Q)$(NASM) -f elf64 -Werror -I $(BENCH_BUILD)/ -I $(<D)/ -MD $(@:.o=.d) -MT $@ -o $@ $<

$(BENCH_BUILD)/bench.ld: tests/kernel/kernel.ld tests/kernel/layout.h
	@mkdir -p $(@D)
	$(Q)$(CC) -E -P -x c -Itests/kernel -o $@ $<

$(BENCH_BUILD)/bench.elf: $(BENCH_OBJECTS) $(BENCH_BUILD)/bench.ld
	$(call say,LD,$@)
	$(Q)$(LD) -nostdlib -static -z noexecstack -z max-page-size=4096 --no-warn-rwx-segments \
	    --no-undefined -T $(BENCH_BUILD)/bench.ld -Map $(BENCH_BUILD)/bench.map -o $@ $(BENCH_OBJECTS)

$(BENCH_IMAGE): $(BENCH_BUILD)/bench.elf
	$(call say,BENCH,$@)
	$(Q)$(OBJCOPY) -O binary -j .setup $< $(BENCH_BUILD)/setup.bin
	$(Q)$(OBJCOPY) -O binary -j .kernel $< $(BENCH_BUILD)/kernel.bin
	@cat $(BENCH_BUILD)/setup.bin $(BENCH_BUILD)/kernel.bin > $@

# Hypervisors with one thing broken, to see the sweeps fail: the same objects, with the functions
# that tests/mutants/NAME.c names __wrap_F in the place of F.
MUTANTS = $(BUILD)/mutants
MUTANT_NAMES = $(patsubst tests/mutants/%.c,%,$(wildcard tests/mutants/*.c))
MUTANT_IMAGES = $(patsubst %,$(MUTANTS)/%.efi,$(MUTANT_NAMES))

$(MUTANTS)/%.elf: $(BUILD)/tests/mutants/%.o $(OBJECTS) linker.ld
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(LD) $(LDFLAGS) $$(sed -n 's/.*__wrap_\([a-z_]*\)(.*)$$/--wrap=\1/p' tests/mutants/$*.c) \
	    -o $@ $(GNU_EFI_LIB)/crt0-efi-x86_64.o $(OBJECTS) $< -L $(GNU_EFI_LIB) -lgnuefi

$(MUTANTS)/%.efi: $(MUTANTS)/%.elf
	$(Q)$(OBJCOPY) --strip-all -j .text -j .rodata -j .data -j .bss -j .dynamic -j .rela -j .reloc \
	    --target efi-app-x86_64 $< $@

check-all e2e: $(BENCH_IMAGE) $(MUTANT_IMAGES)

-include $(BENCH_OBJECTS:.o=.d) $(patsubst %,$(BUILD)/tests/mutants/%.d,$(MUTANT_NAMES))
