# SPDX-License-Identifier: BSD-2-Clause
#
# Commands that run something, or that write outside build/:
#
#   make run         installs what is missing, builds, boots the guest, prints its report, the ledger,
#                    and what happened in one sentence. CONFIG="k=v ...": options of PMUvisor.
#                    PROGRAM="FILE WORDS" [PERF="record ..."]: your own program (docs/program.md)
#   make nested      where KVM offers nested VMX: make run, and make bench QUICK=1 if there is a PMU; elsewhere
#                    a line that says why not. .github/workflows has it as a job
#   make exit-lines [REASON=CPUID] [CONFIG="k=v ..."]   the root instructions of one exit, by function
#                    and line, in the emulator
#   make check [MORE=1|FULL=1]   installs what is missing (at a terminal it asks first), builds, runs
#                    the tests; results: build/junit.xml too. MORE=1 and FULL=1 run more tests
#                    What a boot left is kept by all that went into it (testbed/store.py); FRESH=1: not
#   make short       installs what is missing, builds all with gcc and with clang, and runs the tests that
#                    make no boot, and ten that make one: what .ci/run does on a new Debian 13
#   make e2e         end-to-end tests alone; T="word a/b" runs those with the word in file, name or
#                    parameters, or with both a and b; builds what their boots need
#   python3 -m pytest [-n WORKERS] [-k WORD] [--lf] [--durations=N] [FILE ...]   the same by hand
#   make same T="word ..."   the same tests from power-on and forked; what they leave must be equal
#   make campaign [MINUTES=60]   the test kernel's fuzzers over all options and models
#   make fuzz [FULL=1]   fuzz targets alone, see CONTRIBUTING.md
#   make format      lays out C, C++, Python and shell by their formatters
#   make analyse     cppcheck, clang-tidy and the formatters' check alone
#   make lines       counts the hypervisor's lines of code
#   what experiments have: see experiments/NAME/README.md
#   make build/payload/NAME-FLAVOUR.img   an initial RAM disk, see docs/adding.md
#   make bench [QUICK=1], make answers, make report [RESULTS="a.json b.json"]   see docs/measuring.md
#   make install ESP=DIR, make usb, make collect ESP=DIR, make deb, make pmuvisor-check   see docs/metal.md
#   make docs   makes the option pages and pictures of docs/, see CONTRIBUTING.md
#   GUEST=cloud|stock   which of Debian's kernels the guest of `make run` is

GUEST ?= cloud
export GUEST
T ?=
CONFIG ?=
PROGRAM ?=
PERF ?=
APPEND ?=
REASON ?= CPUID
# What a run leaves.
RUN = $(BUILD)/run
RUN_LEDGER = $(RUN)/ledger.json

.PHONY: run nested exit-lines exit-lines-run check built short short-tests e2e same run-guest check-all test-machine lines analyse format

# What only the tests of MORE=1 and of FULL=1 need.
MORE_GROUPS = $(if $(filter 1,$(MORE) $(FULL)),more deb) $(if $(filter 1,$(FULL)),full)

# Two steps, so that the second make sees the packages that the first one installed.
run:
	@[ -n "$$PROGRAM" ] || [ -z "$$PERF" ] || { echo "make run: found PERF=, wanted PROGRAM= with it:" \
	    "perf runs a program of yours (docs/program.md)" >&2; exit 1; }
	@testbed/deps.sh build run
	@$(MAKE) --no-print-directory run-guest

run-guest: $(EFI) $(LAB)
	@rm -rf $(RUN) && mkdir -p $(RUN)
	@backend=$$(./run-qemu.sh --probe 2>&1 > /dev/null); \
	set -- ./run-qemu.sh --config "$$CONFIG" --serial $(RUN)/console.txt; \
	[ -z "$$PROGRAM" ] || set -- "$$@" --program "$$PROGRAM" --perf "$$PERF"; \
	[ -z "$$APPEND" ] || set -- "$$@" --append "$$APPEND"; \
	case "$$backend" in *" kvm: "*) why=$$(testbed/kvm_exits.sh --check); \
	        if [ -n "$$why" ]; then echo "make run: KVM's exits are not counted: $$why" >&2; \
	        else set -- testbed/kvm_exits.sh $(RUN)/exits.txt "$$@"; fi ;; \
	    *) set -- "$$@" --ledger $(RUN_LEDGER) --files $(RUN)/files ;; esac; \
	status=0; "$$@" || status=$$?; \
	[ $$status -eq 4 ] || [ ! -s $(RUN_LEDGER) ] || testbed/ledger.py $(RUN_LEDGER); \
	[ ! -s $(RUN)/exits.txt ] || testbed/ledger.py --kvm $(RUN)/exits.txt; \
	$(PYTHON) -m testbed.sentence $$status $(RUN)/console.txt --ledger $(RUN_LEDGER) \
	    --files $(RUN)/files --backend "$$backend" || [ $$status -ne 0 ] || status=1; exit $$status

# A machine without VMX or PMU is no failure: a runner may be of any kind. Without a PMU program A.1 cannot run.
EVENT_SOURCES = /sys/bus/event_source/devices
nested:
	@if [ "$$(./run-qemu.sh --probe)" != kvm ]; then \
	    echo "make nested: nothing was run, because KVM offers no nested VMX here; the line above says why"; \
	elif ls -d $(EVENT_SOURCES)/cpu* > /dev/null 2>&1; then \
	    $(MAKE) --no-print-directory run && $(MAKE) --no-print-directory bench QUICK=1; \
	else \
	    echo "make nested: this machine has no PMU: PMUvisor starts with pmu=off, and nothing is measured"; \
	    $(MAKE) --no-print-directory run CONFIG=pmu=off APPEND=pmv.run=report; fi

exit-lines:
	@testbed/deps.sh build run
	@$(MAKE) --no-print-directory exit-lines-run

# The job cpuid has a hundred exits more of the commonest way.
exit-lines-run: $(EFI) $(LAB)
	@mkdir -p $(RUN)
	@./run-qemu.sh --backend emulator --config '$(CONFIG)' --append pmv.run=a1,cpuid --knob 'exit_paths on' \
	    --serial $(RUN)/console.txt --ledger $(RUN)/exit_paths.json > $(RUN)/exit_paths.log 2>&1 || \
	    { tail -n 1 $(RUN)/exit_paths.log; exit 1; } >&2
	@image=$$(testbed/image.sh '$(CONFIG)' $(BUILD)); \
	testbed/exit_lines.py $(if $(PAGE),--page $(PAGE)) $(RUN)/exit_paths.json "$${image%.efi}.elf" '$(REASON)'

# Much is installed: whoever is at a terminal is asked.
check:
	@testbed/deps.sh $$([ ! -t 0 ] || echo --ask) build run check bench $(MORE_GROUPS)
	@$(MAKE) --no-print-directory --jobs=$$(nproc) built
	@$(MAKE) --no-print-directory check-all

# Fetched and built before a test that has to end in time needs them.
test-machine: $(BUILD)/payload/initrd-$(GUEST).img
	@testbed/build.sh > /dev/null

# Apart from check-all, whose tests are to know nothing of the jobs of this.
built: $(EFI) $(LAB) $(UNIT_TESTS) test-machine
check-all: built lines
	@$(PYTEST) --junitxml=$(BUILD)/junit.xml

# Ten boots between them; experiments add theirs.
SHORT_BOOTS += tests/e2e/test_guest.py::test_pmu_as_native tests/e2e/test_guest.py::test_cpuid_exit_budget \
    $(foreach test,test_native test_guest,tests/e2e/test_kernel.py::$(test) tests/e2e/test_cet.py::$(test)) \
    tests/e2e/test_smp_kernel.py::test_native tests/e2e/test_smp_kernel.py::test_starts
# $(call short-builds,VARIABLES): usb makes the images again, so it runs after them, not beside them. Without
# GUEST a stick has its own default kernel.
define short-builds
	@$(MAKE) --no-print-directory --jobs=$$(nproc) $(1) all lab test-kernel unit-programs
	@$(if $(wildcard metal),env -u GUEST $(MAKE) --no-print-directory --jobs=$$(nproc) $(1) usb)
endef

short:
	@testbed/deps.sh build run check bench
	$(call short-builds)
	$(call short-builds,CC=clang BUILD=$(BUILD)/clang)
	@$(MAKE) --no-print-directory test-machine
	@$(MAKE) --no-print-directory short-tests

short-tests:
	@$(PYTEST) tests/static tests/unit docs bench $(wildcard experiments/*/analysis) $(SHORT_BOOTS)

# Hypervisors that stack.py must refuse; __wrap_F is called in the place of F.
# bad.c is for the analysers alone: a compiler with -Werror refuses it.
STACK_MUTANTS = $(patsubst tests/static/%.c,$(BUILD)/static/%.elf,\
    $(filter-out tests/static/bad.c,$(wildcard tests/static/*.c)))
$(BUILD)/tests/static/%.o: private CFLAGS += -Wno-missing-prototypes
$(BUILD)/static/%.elf: $(BUILD)/tests/static/%.o $(BUILD)/pmuvisor.elf
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(LD) $(LDFLAGS) --wrap=vmx_exit -Map $(@:.elf=.map) -o $@ \
	    $(GNU_EFI_LIB)/crt0-efi-x86_64.o $(OBJECTS) $< -L $(GNU_EFI_LIB) -lgnuefi

all built: $(STACK_MUTANTS)

# Intel's decoder of Intel PT, for a test's lists.
$(BUILD)/libipt_branches: tests/e2e/libipt_branches.c tests/e2e/libipt_trace.h
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -std=gnu11 -O2 $(WARNINGS) -I. -o $@ $< -lipt

lines:
	@$(PYTHON) -m tests.static.code_lines

format:
	@tests/static/format.sh

analyse: $(BUILD)/flags
	@$(PYTEST) tests/static/test_analyse.py

# What experiments/ and metal/ add, where they are there; an experiment's unit tests are in folders below.
E2E = tests/e2e $(sort $(wildcard experiments/*/tests/test_*.py metal/tests/test_*.py))

# T as pytest's -k has it: T="a/b c" is the tests with a and b in file, name and parameters, or with c.
blank = $(subst ,, )
WORD = $(subst $(blank),,$(foreach word,$(T),$(if $(filter-out $(firstword $(T)),$(word)),~or~)$(subst /,~and~,$(patsubst %/,%,$(word)))))
SELECTED = $(if $(T),-k "$(subst ~, ,$(WORD))")

e2e:
	@$(if $(strip $(MORE_GROUPS)),testbed/deps.sh $(MORE_GROUPS))
	@MORE=1 $(PYTEST) $(E2E) $(SELECTED)

.PHONY: campaign
MINUTES ?= 60
campaign: built
	@$(PYTHON) -m tests.e2e.campaign $(MINUTES)

SAME = $(BUILD)/same
same:
	@rm -rf $(SAME)
	@FORK=0 MORE=1 $(PYTEST) $(E2E) --keep $(SAME)/cold $(SELECTED)
	@FORK=1 MORE=1 $(PYTEST) $(E2E) --keep $(SAME)/forked $(SELECTED)
	@tests/e2e/compare.py $(SAME)/cold $(SAME)/forked

# The hypervisor with hypercalls for tests, and with its NMI sources broken, in a folder of its own.
TEST_BUILD = $(BUILD)/test
.PHONY: test-image test-hypervisor
test-hypervisor:
	@$(MAKE) --no-print-directory TEST=1 BUILD=$(TEST_BUILD) lab

test-image:
	@$(MAKE) --no-print-directory TEST=1 BUILD=$(TEST_BUILD) lab \
	    $(addprefix $(TEST_BUILD)/mutants/,no_claim.efi nested_nmi.efi blind_pmi.efi no_msr_rules.efi \
	    unrecorded.efi no_stop.efi unguarded.efi unisolated.efi nmi_in_shadow.efi)

# EFI applications that tests bring, each in a folder of its own: tests/NAME/ makes build/NAME/NAME.efi.
TEST_APPLICATIONS = vtd la57 plan
$(TEST_APPLICATIONS:%=$(BUILD)/tests/%/main.o) $(BUILD)/tests/firmware/firmware.o: private CFLAGS += $(BOOT_CFLAGS)

$(foreach name,$(TEST_APPLICATIONS),$(BUILD)/$(name)/$(name).elf): linker.ld
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(LD) $(LDFLAGS) -o $@ $(GNU_EFI_LIB)/crt0-efi-x86_64.o $(filter %.o,$^) \
	    -L $(GNU_EFI_LIB) -lgnuefi

$(foreach name,$(TEST_APPLICATIONS),$(BUILD)/$(name)/$(name).efi): %.efi: %.elf
	$(call say,EFI,$@)
	$(Q)$(OBJCOPY) --strip-all -j .text -j .rodata -j .data -j .bss -j .dynamic -j .rela -j .reloc \
	    --target efi-app-x86_64 $< $@

include tests/vtd/vtd.mk
include tests/la57/la57.mk
include tests/plan/plan.mk
include tests/fuzz/fuzz.mk
include tests/kernel/kernel.mk
include bench/measure.mk
include $(wildcard metal/*.mk)

built: test-image vtd-image la57-image plan-image $(CHECK_PROGRAM) $(CHECK_JOB)
include docs/docs.mk
# Last: it takes what the others add.
include programs/images.mk
