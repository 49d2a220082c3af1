# SPDX-License-Identifier: BSD-2-Clause
#
# Fuzz targets of libFuzzer; included by tests/tests.mk.
#
#   make fuzz          the corpus, 100,000 new inputs for each target; FULL=1: 10 million
#   make fuzz-corpus   the least of all inputs found that reaches the same code, beside the corpus

FUZZ_CC = clang
FUZZ = $(BUILD)/fuzz
FUZZ_CFLAGS = -std=gnu11 -g -O1 $(WARNINGS) -fsanitize=fuzzer-no-link,address,undefined \
              -fno-sanitize-recover=all -fno-omit-frame-pointer -Iinclude -I. -DUNIT_TEST
# What eats bytes from elsewhere, and what that needs.
FUZZ_SOURCES = boot/acpi.c boot/boot_text.c boot/options.c console/log.c console/log_ring.c \
               guest/acpi_edit.c \
               guest/e820.c guest/linux.c guest/linux_probe.c mm/dmar.c mm/guest_walk.c vmx/decode.c \
               lib/acpi.c lib/acpi_sleep.c lib/format.c lib/refusal.c
FUZZ_LIBRARY = $(patsubst %.c,$(FUZZ)/%.o,$(FUZZ_SOURCES))
FUZZ_NAMES = $(patsubst tests/fuzz/%.c,%,$(sort $(wildcard tests/fuzz/*.c)))
FUZZ_TARGETS = $(addprefix $(FUZZ)/,$(FUZZ_NAMES))
# Each once more with a bug in what it tests, which it has to find.
FUZZ_PLANTED = $(patsubst tests/fuzz/%.c,$(FUZZ)/%,$(wildcard tests/fuzz/planted/*.c))

.PHONY: fuzz fuzz-corpus fuzz-targets
fuzz: fuzz-targets
	@$(PYTEST) tests/fuzz

fuzz-corpus: fuzz-targets
	@/usr/bin/python3 -B -m tests.fuzz.targets

built: fuzz-targets

fuzz-targets: $(FUZZ_TARGETS) $(FUZZ_PLANTED)

$(FUZZ)/%.o: %.c $(FUZZ)/flags
	@mkdir -p $(@D)
	$(call say,FUZZ,$<)
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) -MMD -MP -c -o $@ $<

$(FUZZ)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(FUZZ_CC) $(FUZZ_CFLAGS)' | cmp -s - $@ || echo '$(FUZZ_CC) $(FUZZ_CFLAGS)' > $@

$(FUZZ)/tests/fuzz/planted/%.o: private FUZZ_CFLAGS += -Wno-missing-prototypes
$(FUZZ_TARGETS): $(FUZZ)/%: $(FUZZ)/tests/fuzz/%.o $(FUZZ_LIBRARY)
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) -fsanitize=fuzzer -o $@ $^

$(FUZZ_PLANTED): $(FUZZ)/planted/%: $(FUZZ)/tests/fuzz/planted/%.o $(FUZZ)/tests/fuzz/%.o \
                 $(FUZZ_LIBRARY)
	@mkdir -p $(@D)
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) -fsanitize=fuzzer \
	    $$(sed -n 's/.*__wrap_\([a-z0-9_]*\)(.*/-Wl,--wrap=\1/p' tests/fuzz/planted/$*.c) -o $@ $^

-include $(FUZZ_LIBRARY:.o=.d) $(patsubst %,$(FUZZ)/tests/fuzz/%.d,$(FUZZ_NAMES))
