# SPDX-License-Identifier: BSD-2-Clause
#
# Commands that only build:
#
#   make             build/pmuvisor.efi, the EFI image: the policy alone
#   make lab         build/pmuvisor-lab.efi as well, the same with experiments:
#                    all, or EXPERIMENTS="name ..."
#   make unit        unit tests on the host, under AddressSanitizer and UBSan
#   make clean       removes build/
#   CC=gcc|clang     compiler       V=1   show commands
#   TEST=1           hypercalls for tests in the image (use another BUILD= for it)

CC = gcc
NASM = nasm
LD = ld
OBJCOPY = objcopy
PYTHON = PYTHONPYCACHEPREFIX=$(if $(filter /%,$(BUILD)),,'$(CURDIR)'/)$(BUILD)/python /usr/bin/python3
# As many workers as there are processors that may be used.
PYTEST = $(PYTHON) -m pytest -n $$(nproc)
BUILD = build
TEST = 0
V = 0
.DEFAULT_GOAL = all
EFI_SIZE_MAX = $(if $(filter 1,$(TEST)),$(LAB_SIZE_MAX),122880)
LAB_SIZE_MAX = 163840

EFI = $(BUILD)/pmuvisor.efi
LAB = $(BUILD)/pmuvisor-lab.efi
# From the top layer down: a folder calls itself or folders further right (tests/static/layers.py).
FOLDERS = boot vmx/start guest vmx/exit nmi pmu vmx vmx/root apic mm console lib
C_SOURCES = $(sort $(wildcard $(addsuffix /*.c,$(FOLDERS))))
ASM_SOURCES = $(sort $(wildcard $(addsuffix /*.asm,$(FOLDERS))))
# The experiments in pmuvisor-lab.efi: folders of experiments/ with a part of the hypervisor.
EXPERIMENTS = $(patsubst experiments/%/hypervisor,%,$(wildcard experiments/*/hypervisor))
# Hypercalls for tests. No other build contains any part of them.
ifeq ($(TEST),1)
C_SOURCES += $(sort $(wildcard tests/hooks/*.c))
ASM_SOURCES += $(sort $(wildcard tests/hooks/*.asm))
endif
# Not code: each DEFINE in it becomes a constant for NASM.
OFFSETS_SOURCE = vmx/offsets.c
# The experiment.mk of experiment NAME may list the experiments that NAME needs in NEEDS_NAME, and
# the sources that its unit tests need in EXPERIMENT_UNIT_SOURCES.
EXPERIMENT_UNIT_SOURCES =
-include $(sort $(wildcard experiments/*/experiment.mk))
LAB_FOLDERS = $(patsubst %,experiments/%/hypervisor,\
                $(sort $(foreach name,$(EXPERIMENTS),$(name) $(NEEDS_$(name)))))
LAB_C_SOURCES = $(filter-out %/offsets.c,$(sort $(wildcard $(addsuffix /*.c,$(LAB_FOLDERS)))))
LAB_ASM_SOURCES = $(sort $(wildcard $(addsuffix /*.asm,$(LAB_FOLDERS))))
LAB_OFFSETS = $(patsubst %.c,$(BUILD)/%.inc,$(wildcard $(addsuffix /offsets.c,$(LAB_FOLDERS))))
# Here #include "NAME.h" finds the headers that an experiment's hypervisor and guest programs share.
EXPERIMENT_INCLUDES = $(addprefix -I,$(wildcard experiments/*/hypervisor))

OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(OFFSETS_SOURCE),$(C_SOURCES))) \
          $(patsubst %.asm,$(BUILD)/%.asm.o,$(ASM_SOURCES))
LAB_OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(LAB_C_SOURCES)) \
              $(patsubst %.asm,$(BUILD)/%.asm.o,$(LAB_ASM_SOURCES))

GNU_EFI_INCLUDE ?= /usr/include/efi
GNU_EFI_LIB ?= $(patsubst %/crt0-efi-x86_64.o,%,$(firstword $(wildcard \
    /usr/lib/crt0-efi-x86_64.o /usr/lib/x86_64-linux-gnu/gnuefi/crt0-efi-x86_64.o)))

WARNINGS = -Wall -Wextra -Werror -Wstrict-prototypes -Wmissing-prototypes -Wshadow -Wvla
CFLAGS = -std=c11 -O2 -g $(WARNINGS) -ffreestanding -fno-stack-protector -fcf-protection=none \
         -mgeneral-regs-only -mno-red-zone -fpie -fvisibility=hidden \
         -fno-asynchronous-unwind-tables -fno-unwind-tables -fno-common -Iinclude -I. \
         -fstack-usage \
         $(STACK_ALIGNED_TO_8)
CLANG := $(findstring clang,$(shell $(CC) --version 2>&1))
SMALL = -Os
# Without SSE nothing needs a stack that is aligned to 16, and a function that only reads VMCS fields
# needs no frame. Code that calls firmware does need such a stack (UEFI, "x64 Platforms").
STACK_ALIGNED_TO_8 = -mpreferred-stack-boundary=3
STACK_ALIGNED_TO_16 = -mpreferred-stack-boundary=4
# clang unrolls loops at -O2 and inlines more at -Os than gcc. Its images exceeded their limits
# without these flags.
ifneq ($(CLANG),)
CFLAGS += -fno-unroll-loops
SMALL = -Oz
STACK_ALIGNED_TO_8 = -mstack-alignment=8
STACK_ALIGNED_TO_16 = -mstack-alignment=16
endif
# Only boot/ knows firmware.
BOOT_CFLAGS = -isystem $(GNU_EFI_INCLUDE) -isystem $(GNU_EFI_INCLUDE)/x86_64 \
              -DGNU_EFI_USE_MS_ABI -fshort-wchar $(STACK_ALIGNED_TO_16)
LDFLAGS = -nostdlib -pie --no-dynamic-linker -z text -z noexecstack -z norelro \
          -z max-page-size=4096 --no-undefined --no-warn-rwx-segments -T linker.ld

# $(call say,WHAT,FILE): prints one short line instead of the command, unless V=1.
ifeq ($(V),1)
Q =
say =
else
Q = @
say = @printf '  %-5s %s\n' $(1) $(2)
endif

.PHONY: all lab unit unit-programs clean help
all: $(EFI)
lab: $(EFI) $(LAB)

# Prints the head comments of tests/tests.mk and of this file, up to the first line that is not a comment.
help:
	@sed -ns '2,/^[^#]/s/^# \{0,1\}//p' $(wildcard tests/tests.mk) Makefile

$(BUILD)/boot/%.o: private CFLAGS += $(BOOT_CFLAGS)
# Code that runs once, before the guest, or that writes the log is optimised for size.
$(BUILD)/boot/%.o $(BUILD)/guest/%.o $(BUILD)/vmx/start/%.o $(BUILD)/console/%.o: private CFLAGS += $(SMALL)
$(addprefix $(BUILD)/mm/,dmar.o ept.o host_paging.o mtrr.o page.o vtd.o) \
    $(addprefix $(BUILD)/vmx/,capability.o control.o mitigations.o msr_bitmap.o settings.o) \
    $(addprefix $(BUILD)/vmx/exit/,init_sipi.o report.o triple_fault.o) \
    $(addprefix $(BUILD)/vmx/root/,descriptors.o end.o fault.o) \
    $(BUILD)/lib/acpi.o $(BUILD)/lib/format.o: private CFLAGS += $(SMALL)
$(BUILD)/experiments/%.o: private CFLAGS += $(EXPERIMENT_INCLUDES)
$(BUILD)/experiments/%.inc: private CFLAGS += $(EXPERIMENT_INCLUDES)

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/%.asm.o: %.asm $(BUILD)/offsets.inc $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,NASM,$<)
	$(Q)$(NASM) -f elf64 -g -F dwarf -Werror -I $(BUILD)/ -I $(<D)/ -MD $(@:.o=.d) -MT $@ -o $@ $<

# Offsets of C structs for NASM, read from the compiler's own assembly output. That output is not
# valid assembly, so clang must not parse it.
OFFSETS_CFLAGS = $(if $(CLANG),-fno-integrated-as)
# $(call offsets,SOURCE): makes $@ from SOURCE.
define offsets
	@mkdir -p $(@D)
	$(call say,CC,$(1))
	$(Q)$(CC) $(CFLAGS) $(OFFSETS_CFLAGS) -MMD -MP -MF $(@:.inc=.d) -MT $@ -S -o $(@:.inc=.s) $(1)
	$(Q)sed -n 's/^[^A-Za-z0-9]*->\([A-Za-z_0-9]*\) [$$#]*\(-\{0,1\}[0-9][0-9]*\).*/%define \1 \2/p' \
	    $(@:.inc=.s) > $@
	@test -s $@ || { rm -f $@; echo "Makefile: no DEFINE found in $(1)" >&2; exit 1; }
endef
$(BUILD)/offsets.inc: $(OFFSETS_SOURCE) $(BUILD)/flags
	$(call offsets,$<)
$(BUILD)/experiments/%/offsets.inc: experiments/%/offsets.c $(BUILD)/flags
	$(call offsets,$<)
$(LAB_OBJECTS): $(LAB_OFFSETS)

# Changes if and only if the compiler or the flags change. A target's own flags are private, because
# this file is made for whichever target needs it first.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(CFLAGS) $(BOOT_CFLAGS)' | cmp -s - $@ || echo '$(CC) $(CFLAGS) $(BOOT_CFLAGS)' > $@
.PHONY: FORCE

# Changes when the list of linked experiments changes.
$(BUILD)/experiments.txt: FORCE
	@mkdir -p $(@D)
	@echo '$(LAB_FOLDERS)' | cmp -s - $@ || echo '$(LAB_FOLDERS)' > $@

$(BUILD)/pmuvisor.elf: $(OBJECTS)
$(BUILD)/pmuvisor-lab.elf: $(OBJECTS) $(LAB_OBJECTS) $(BUILD)/experiments.txt
$(BUILD)/pmuvisor.elf $(BUILD)/pmuvisor-lab.elf: linker.ld
	@test -n "$(GNU_EFI_LIB)" || { echo "Makefile: GNU-EFI not found (crt0-efi-x86_64.o);" \
	    "install the package gnu-efi or set GNU_EFI_LIB" >&2; exit 1; }
	$(call say,LD,$@)
	$(Q)$(LD) $(LDFLAGS) -Map $(@:.elf=.map) -o $@ $(GNU_EFI_LIB)/crt0-efi-x86_64.o \
	    $(filter %.o,$^) -L $(GNU_EFI_LIB) -lgnuefi

$(EFI): SIZE_MAX = $(EFI_SIZE_MAX)
$(LAB): SIZE_MAX = $(LAB_SIZE_MAX)
$(EFI) $(LAB): %.efi: %.elf tests/static/stack.py
	$(call say,EFI,$@)
	$(Q)$(OBJCOPY) --strip-all -j .text -j .rodata -j .data -j .bss -j .dynamic -j .rela -j .reloc \
	    --target efi-app-x86_64 $< $@.tmp
	$(Q)tests/static/stack.py --map $(<:.elf=.map) $<
	@size=$$(wc -c < $@.tmp); if [ $$size -gt $(SIZE_MAX) ]; then \
	    echo "Makefile: $@ has $$size bytes, wanted at most $(SIZE_MAX)" >&2; exit 1; fi
	@mv $@.tmp $@

# ---- unit tests on the host ----
# Everything that needs no firmware goes into one archive, from which the linker takes what a test
# needs. tests/host stands for the instructions that the host cannot execute. Each
# tests/unit/test_*.c becomes one program, and each test_*.c of an experiment, too.
UNIT = $(BUILD)/unit
UNIT_CFLAGS = -std=gnu11 -g -O1 $(WARNINGS) -fsanitize=address,undefined \
              -fno-sanitize-recover=all -fno-omit-frame-pointer -Itests/host -Iinclude -I. \
              -DUNIT_TEST -Itests/unit $(EXPERIMENT_INCLUDES)
FIRMWARE_SOURCES = boot/main.c boot/files.c boot/platform.c boot/memory.c boot/screen.c boot/last.c \
                   lib/string.c
# The part of the measurements that runs without hardware.
MEASURE_SOURCES = programs/measure/report.c programs/measure/statistics.c
# The part of the launcher on KVM that does not use KVM.
LAUNCHER_SOURCES = programs/kvm/acpi.c programs/kvm/host.c programs/kvm/image.c programs/kvm/uart.c
# Sources that need firmware, but for which a test has a double of the firmware.
DOUBLED_SOURCES = boot/memory.c
UNIT_LIBRARY_SOURCES = $(filter-out $(FIRMWARE_SOURCES) $(OFFSETS_SOURCE),$(C_SOURCES)) \
                       $(MEASURE_SOURCES) $(LAUNCHER_SOURCES) $(DOUBLED_SOURCES) \
                       $(EXPERIMENT_UNIT_SOURCES) $(LAB_C_SOURCES) tests/host/instructions.c
UNIT_LIBRARY = $(patsubst %.c,$(UNIT)/%.o,$(UNIT_LIBRARY_SOURCES))
UNIT_TEST_SOURCES = $(sort $(wildcard tests/unit/test_*.c experiments/*/tests/unit/test_*.c))
UNIT_TESTS = $(patsubst %.c,$(UNIT)/%,$(notdir $(UNIT_TEST_SOURCES)))

$(UNIT)/boot/memory.o $(UNIT)/tests/unit/test_memory.o: private UNIT_CFLAGS += $(BOOT_CFLAGS)

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

unit-programs: $(UNIT_TESTS)
unit: unit-programs
	@test -n "$(UNIT_TESTS)" || { echo "Makefile: no unit tests found" >&2; exit 1; }
	@$(PYTEST) tests/unit/test_programs.py -k test_unit

.SECONDARY:

clean:
	rm -rf $(BUILD)

-include $(wildcard tests/tests.mk)
-include $(OBJECTS:.o=.d) $(LAB_OBJECTS:.o=.d) $(UNIT_LIBRARY:.o=.d) $(BUILD)/offsets.d
-include $(LAB_OFFSETS:.inc=.d) $(patsubst %.c,$(UNIT)/%.d,$(UNIT_TEST_SOURCES))

# Last, when all targets are known: each goal on the command line that has no slash must be a .PHONY
# target.
WORDS = $(foreach goal,$(MAKECMDGOALS),$(if $(findstring /,$(goal)),,$(goal)))
PHONY_TARGETS = $(shell sed -n 's/^\.PHONY://p' $(filter-out %.d,$(MAKEFILE_LIST)))
$(foreach word,$(if $(WORDS),$(filter-out $(PHONY_TARGETS),$(WORDS))),\
    $(error no target '$(word)'; make help lists the targets))

# Each variable on the command line must be named in a makefile, or be one that programs read.
READ_BY_PROGRAMS = BITVISOR CXX DISTFILES DRAW FIRMWARE GRUB_MODULES MAKEFLAGS PMUVISOR_CACHE SEED \
                   SHELL SOURCE_DATE_EPOCH TMPDIR XDG_CACHE_HOME
GIVEN = $(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(name)))
KNOWN = $(READ_BY_PROGRAMS) $(shell grep -ohw '[A-Z][A-Z0-9_]*' $(filter-out %.d,$(MAKEFILE_LIST)))
$(foreach name,$(if $(GIVEN),$(filter-out $(KNOWN),$(GIVEN))),\
    $(error no variable '$(name)'; make help names the variables))
