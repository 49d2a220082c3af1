# SPDX-License-Identifier: BSD-2-Clause
#
# Builds build/pmuvisor.efi (the default) and runs the unit tests.
#
#   make             the EFI image
#   make unit        unit tests on the host, under AddressSanitizer and UBSan
#   make clean       removes build/
#   CC=gcc|clang     compiler       V=1   show commands
#   TEST=1           hypercalls for tests in the image (use another BUILD= for it)
#   TRACE=0          without trace/ (use another BUILD= for it)
# Targets that run something in the emulator or in QEMU are in tests/tests.mk.

CC = gcc
NASM = nasm
LD = ld
OBJCOPY = objcopy
PYTEST = /usr/bin/python3 -B -m pytest
BUILD = build
TEST = 0
TRACE = 1
V = 0
EFI_SIZE_MAX = 163840
# Of boot/, which ends before the guest runs, of the traces, which are opt-ins, and of all else.
BOOT_LINES_MAX = 1600
TRACE_LINES_MAX = 1550
CODE_LINES_MAX = 8000

EFI = $(BUILD)/pmuvisor.efi
# From the top down: calls go to a folder further right, or stay (tests/static/layers.py).
FOLDERS = boot vmx/start trace guest vmx/exit nmi pmu vmx vmx/root apic mm console lib
LINKED = $(filter-out $(if $(filter 0,$(TRACE)),trace),$(FOLDERS))
# What of the other folders the traces alone use.
FOR_TRACE = mm/ept_copy.c pmu/lend.c
C_SOURCES = $(filter-out $(if $(filter 0,$(TRACE)),$(FOR_TRACE)),\
              $(sort $(wildcard $(addsuffix /*.c,$(LINKED)))))
ASM_SOURCES = $(sort $(wildcard $(addsuffix /*.asm,$(LINKED))))
# Hypercalls for tests, and nothing of them in any other build.
ifeq ($(TEST),1)
C_SOURCES += $(sort $(wildcard tests/hooks/*.c))
ASM_SOURCES += $(sort $(wildcard tests/hooks/*.asm))
endif
# Not code: each DEFINE in it becomes a constant for NASM.
OFFSETS_SOURCE = vmx/offsets.c

OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(OFFSETS_SOURCE),$(C_SOURCES))) \
          $(patsubst %.asm,$(BUILD)/%.asm.o,$(ASM_SOURCES))

GNU_EFI_INCLUDE ?= /usr/include/efi
GNU_EFI_LIB ?= $(patsubst %/crt0-efi-x86_64.o,%,$(firstword $(wildcard \
    /usr/lib/crt0-efi-x86_64.o /usr/lib/x86_64-linux-gnu/gnuefi/crt0-efi-x86_64.o)))

WARNINGS = -Wall -Wextra -Werror -Wstrict-prototypes -Wmissing-prototypes -Wshadow -Wvla
CFLAGS = -std=c11 -O2 $(WARNINGS) -ffreestanding -fno-stack-protector -fcf-protection=none \
         -mgeneral-regs-only -mno-red-zone -fpie -fvisibility=hidden \
         -fno-asynchronous-unwind-tables -fno-unwind-tables -fno-common -Iinclude -I.
ifeq ($(TEST),1)
CFLAGS += -DTEST
endif
ifneq ($(TRACE),0)
TRACE_DEFINE = -DTRACE
endif
CFLAGS += $(TRACE_DEFINE)
# Only boot/ knows firmware.
BOOT_CFLAGS = -isystem $(GNU_EFI_INCLUDE) -isystem $(GNU_EFI_INCLUDE)/x86_64 \
              -DGNU_EFI_USE_MS_ABI -fshort-wchar
LDFLAGS = -nostdlib -pie --no-dynamic-linker -z text -z noexecstack -z norelro \
          -z max-page-size=4096 --no-undefined --no-warn-rwx-segments -T linker.ld

# $(call say,WHAT,FILE): one short line instead of the command, unless V=1.
ifeq ($(V),1)
Q =
say =
else
Q = @
say = @printf '  %-5s %s\n' $(1) $(2)
endif

.PHONY: all unit clean help
all: $(EFI)

help:
	@sed -n '3,10s/^# \{0,1\}//p' Makefile

$(BUILD)/boot/%.o: CFLAGS += $(BOOT_CFLAGS)
# What runs once, before the guest or where a trace begins, is small rather than fast.
$(BUILD)/boot/%.o $(BUILD)/guest/%.o $(BUILD)/vmx/start/%.o: CFLAGS += -Os
$(addprefix $(BUILD)/trace/,ring.o level.o memory.o memory_map.o) \
    $(addprefix $(BUILD)/,mm/ept_copy.o pmu/lend.o): CFLAGS += -Os

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/%.asm.o: %.asm $(BUILD)/offsets.inc $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,NASM,$<)
	$(Q)$(NASM) -f elf64 -Werror -I $(BUILD)/ -I $(<D)/ -MD $(@:.o=.d) -MT $@ -o $@ $<

# Offsets of C structs for NASM, read from the compiler's own assembly output, which is no valid
# assembly: clang must not look at it.
OFFSETS_CFLAGS = $(if $(findstring clang,$(shell $(CC) --version 2>&1)),-fno-integrated-as)
$(BUILD)/offsets.inc: $(wildcard $(OFFSETS_SOURCE)) $(BUILD)/flags
	@mkdir -p $(@D)
ifneq ($(wildcard $(OFFSETS_SOURCE)),)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS) $(OFFSETS_CFLAGS) -MMD -MP -MF $(BUILD)/offsets.d -MT $@ \
	    -S -o $(BUILD)/offsets.s $<
	$(Q)sed -n 's/^[^A-Za-z0-9]*->\([A-Za-z_0-9]*\) [$$#]*\(-\{0,1\}[0-9][0-9]*\).*/%define \1 \2/p' \
	    $(BUILD)/offsets.s > $@
	@test -s $@ || { rm -f $@; echo "Makefile: no DEFINE found in $(OFFSETS_SOURCE)" >&2; exit 1; }
else
	: > $@
endif

# Changes whenever compiler or flags do, and only then.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(CFLAGS) $(BOOT_CFLAGS)' | cmp -s - $@ || echo '$(CC) $(CFLAGS) $(BOOT_CFLAGS)' > $@
.PHONY: FORCE

$(BUILD)/pmuvisor.elf: $(OBJECTS) linker.ld
	@test -n "$(GNU_EFI_LIB)" || { echo "Makefile: GNU-EFI not found (crt0-efi-x86_64.o);" \
	    "install the package gnu-efi or set GNU_EFI_LIB" >&2; exit 1; }
	$(call say,LD,$@)
	$(Q)$(LD) $(LDFLAGS) -Map $(BUILD)/pmuvisor.map -o $@ $(GNU_EFI_LIB)/crt0-efi-x86_64.o $(OBJECTS) \
	    -L $(GNU_EFI_LIB) -lgnuefi

$(EFI): $(BUILD)/pmuvisor.elf tests/static/stack.py
	$(call say,EFI,$@)
	$(Q)$(OBJCOPY) --strip-all -j .text -j .rodata -j .data -j .bss -j .dynamic -j .rela -j .reloc \
	    --target efi-app-x86_64 $< $@.tmp
	$(Q)tests/static/stack.py --map $(<:.elf=.map) $<
	@size=$$(wc -c < $@.tmp); if [ $$size -gt $(EFI_SIZE_MAX) ]; then \
	    echo "Makefile: $@ has $$size bytes, wanted at most $(EFI_SIZE_MAX)" >&2; exit 1; fi
	@mv $@.tmp $@

# ---- unit tests on the host ----
# Everything that needs no firmware goes into one archive; the linker takes from it what a test
# asks for. tests/unit/test_*.c is one program each, an experiment's too.
UNIT = $(BUILD)/unit
UNIT_CFLAGS = -std=gnu11 -g -O1 $(WARNINGS) -fsanitize=address,undefined \
              -fno-sanitize-recover=all -fno-omit-frame-pointer -Iinclude -I. -DUNIT_TEST \
              $(TRACE_DEFINE)
FIRMWARE_SOURCES = boot/main.c boot/files.c boot/platform.c boot/memory.c boot/screen.c boot/last.c \
                   lib/string.c
# Of the measurements, what runs without hardware.
MEASURE_SOURCES = programs/measure/report.c programs/measure/statistics.c
# Of the launcher on KVM, what knows no KVM.
LAUNCHER_SOURCES = programs/kvm/acpi.c programs/kvm/host.c programs/kvm/image.c programs/kvm/uart.c
# Of what needs firmware, what a test has a double of firmware for.
DOUBLED_SOURCES = boot/memory.c
# What an experiment's unit tests ask for, it adds itself.
EXPERIMENT_UNIT_SOURCES =
-include $(sort $(wildcard experiments/*/experiment.mk))
UNIT_LIBRARY_SOURCES = $(filter-out $(FIRMWARE_SOURCES) $(OFFSETS_SOURCE),$(C_SOURCES)) \
                       $(MEASURE_SOURCES) $(LAUNCHER_SOURCES) $(DOUBLED_SOURCES) \
                       $(EXPERIMENT_UNIT_SOURCES)
UNIT_LIBRARY = $(patsubst %.c,$(UNIT)/%.o,$(UNIT_LIBRARY_SOURCES))
UNIT_TEST_SOURCES = $(sort $(wildcard tests/unit/test_*.c experiments/*/tests/unit/test_*.c))
UNIT_TESTS = $(patsubst %.c,$(UNIT)/%,$(notdir $(UNIT_TEST_SOURCES)))

$(UNIT)/boot/memory.o $(UNIT)/tests/unit/test_memory.o: UNIT_CFLAGS += $(BOOT_CFLAGS)

$(UNIT)/%.o: %.c $(UNIT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(UNIT_CFLAGS) -MMD -MP -c -o $@ $<

$(UNIT)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(UNIT_CFLAGS)' | cmp -s - $@ || echo '$(CC) $(UNIT_CFLAGS)' > $@

$(UNIT)/library.a: $(UNIT_LIBRARY)
	@rm -f $@
	$(Q)$(AR) rc $@ $^

$(foreach source,$(UNIT_TEST_SOURCES),\
    $(eval $(UNIT)/$(basename $(notdir $(source))): $(UNIT)/$(source:.c=.o)))
$(UNIT)/test_%: $(UNIT)/library.a
	$(call say,LD,$@)
	$(Q)$(CC) $(UNIT_CFLAGS) -o $@ $(filter %.o,$^) $(UNIT)/library.a -lcmocka

unit: $(UNIT_TESTS)
	@test -n "$(UNIT_TESTS)" || { echo "Makefile: no unit tests found" >&2; exit 1; }
	@$(PYTEST) $(UNIT_TEST_SOURCES)

.SECONDARY:

clean:
	rm -rf $(BUILD)

-include $(wildcard tests/tests.mk)
-include $(OBJECTS:.o=.d) $(UNIT_LIBRARY:.o=.d) $(BUILD)/offsets.d
-include $(patsubst %.c,$(UNIT)/%.d,$(UNIT_TEST_SOURCES))
