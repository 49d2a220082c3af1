# SPDX-License-Identifier: BSD-2-Clause
#
# Builds build/kernel.bzImage, the test kernel, and the broken hypervisors that its tests run on.
# Included by tests/tests.mk, so paths are from the top.

KERNEL_BUILD = $(BUILD)/kernel
TEST_KERNEL = $(BUILD)/kernel.bzImage
KERNEL_C = $(sort $(wildcard tests/kernel/*.c programs/measure/*.c experiments/*/tests/kernel/*.c))
KERNEL_ASM = $(sort $(wildcard tests/kernel/*.asm experiments/*/tests/kernel/*.asm))
# Shared with the hypervisor, compiled anew for another address.
KERNEL_SHARED = lib/format.c lib/string.c lib/acpi.c lib/acpi_sleep.c boot/acpi.c \
                console/log.c console/log_ring.c console/serial.c
KERNEL_OBJECTS = $(patsubst %.c,$(KERNEL_BUILD)/%.o,$(KERNEL_C) $(KERNEL_SHARED)) \
                $(patsubst %.asm,$(KERNEL_BUILD)/%.asm.o,$(KERNEL_ASM))
KERNEL_CFLAGS = -std=c11 -O2 $(WARNINGS) -ffreestanding -fno-stack-protector -fcf-protection=none \
               -mgeneral-regs-only -mno-red-zone -fno-pie -mcmodel=kernel -fno-common \
               -fno-asynchronous-unwind-tables -fno-unwind-tables -Iinclude -I. \
               -Itests/kernel -I$(KERNEL_BUILD) $(EXPERIMENT_INCLUDES)
# The rows of experiments' tests.
KERNEL_ROWS = $(sort $(wildcard experiments/*/tests/kernel/tests.inc))

.PHONY: test-kernel
test-kernel: $(TEST_KERNEL)

$(KERNEL_BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(KERNEL_CFLAGS)' | cmp -s - $@ || echo '$(CC) $(KERNEL_CFLAGS)' > $@

$(KERNEL_BUILD)/experiments.inc: $(KERNEL_ROWS) FORCE
	@mkdir -p $(@D)
	@cat /dev/null $(KERNEL_ROWS) | cmp -s - $@ || cat /dev/null $(KERNEL_ROWS) > $@

$(KERNEL_BUILD)/%.o: %.c $(KERNEL_BUILD)/flags $(KERNEL_BUILD)/experiments.inc
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(KERNEL_CFLAGS) -MMD -MP -c -o $@ $<

$(KERNEL_BUILD)/layout.inc: tests/kernel/layout.h
	@mkdir -p $(@D)
	$(Q)sed -n 's/^#define \([A-Z0-9_]*\) \([0-9a-fx]\{1,\}\)\( .*\)\{0,1\}$$/%define \1 \2/p' $< > $@

$(KERNEL_BUILD)/%.asm.o: %.asm $(KERNEL_BUILD)/layout.inc
	@mkdir -p $(@D)
	$(call say,NASM,$<)
	$(Q)$(NASM) -f elf64 -Werror -I $(KERNEL_BUILD)/ -I tests/kernel/ -MD $(@:.o=.d) -MT $@ -o $@ $<

$(KERNEL_BUILD)/kernel.ld: tests/kernel/kernel.ld tests/kernel/layout.h
	@mkdir -p $(@D)
	$(Q)$(CC) -E -P -x c -Itests/kernel -o $@ $<

$(KERNEL_BUILD)/kernel.elf: $(KERNEL_OBJECTS) $(KERNEL_BUILD)/kernel.ld
	$(call say,LD,$@)
	$(Q)$(LD) -nostdlib -static -z noexecstack -z max-page-size=4096 --no-warn-rwx-segments \
	    --no-undefined -T $(KERNEL_BUILD)/kernel.ld -Map $(KERNEL_BUILD)/kernel.map \
	    -o $@ $(KERNEL_OBJECTS)

$(TEST_KERNEL): $(KERNEL_BUILD)/kernel.elf
	$(call say,IMAGE,$@)
	$(Q)$(OBJCOPY) -O binary -j .setup $< $(KERNEL_BUILD)/setup.bin
	$(Q)$(OBJCOPY) -O binary -j .kernel $< $(KERNEL_BUILD)/kernel.bin
	@cat $(KERNEL_BUILD)/setup.bin $(KERNEL_BUILD)/kernel.bin > $@

# Hypervisors with one thing broken, to see the sweeps fail: the same objects, in which each function
# __wrap_F() of tests/mutants/NAME.c replaces F(). An experiment's are in its own folder.
MUTANTS = $(BUILD)/mutants
MUTANT_SOURCES = $(sort $(wildcard tests/mutants/*.c experiments/*/tests/mutants/*.c))
MUTANT_IMAGES = $(patsubst %.c,$(MUTANTS)/%.efi,$(notdir $(MUTANT_SOURCES)))
# Nobody declares what the linker puts in place of a function.
$(MUTANT_SOURCES:%.c=$(BUILD)/%.o): private CFLAGS += -Wno-missing-prototypes -Wno-unused-parameter
mutant_object = $(BUILD)/$(patsubst %.c,%.o,$(filter %/$*.c,$(MUTANT_SOURCES)))

$(foreach source,$(MUTANT_SOURCES),\
    $(eval $(MUTANTS)/$(basename $(notdir $(source))).elf: $(BUILD)/$(source:.c=.o)))
$(MUTANTS)/%.elf: $(OBJECTS) $(LAB_OBJECTS) linker.ld
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(LD) $(LDFLAGS) -o $@ \
	    $$(nm --defined-only $(mutant_object) | sed -n 's/.* T __wrap_/--wrap=/p') \
	    $(GNU_EFI_LIB)/crt0-efi-x86_64.o $(OBJECTS) $(LAB_OBJECTS) $(mutant_object) \
	    -L $(GNU_EFI_LIB) -lgnuefi

$(MUTANTS)/%.efi: $(MUTANTS)/%.elf
	$(Q)$(OBJCOPY) --strip-all -j .text -j .rodata -j .data -j .bss -j .dynamic -j .rela -j .reloc \
	    --target efi-app-x86_64 $< $@

built e2e: $(TEST_KERNEL) $(MUTANT_IMAGES)

-include $(KERNEL_OBJECTS:.o=.d) $(MUTANT_SOURCES:%.c=$(BUILD)/%.d)
