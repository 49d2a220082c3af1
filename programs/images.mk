# SPDX-License-Identifier: BSD-2-Clause
#
# The guest's programs, its kernel modules, and its initial RAM disks; included by tests/tests.mk, so
# paths are from the top. Experiments add theirs in experiment.mk.
#
#   make build/programs/NAME                 a static program, of the sources PROGRAM_NAME
#   make build/payload/NAME-FLAVOUR.img      an image, of the words IMAGE_NAME (programs/payload/pack.sh);
#                    FLAVOUR: cloud, stock or rt, and a % in the words. Debian's kernel and packages are
#                    fetched into the cache, when they are not there
#   make build/payload/kvm-NAME-FLAVOUR.img  KVM and the launcher, with the words KVM_NAME, and that image
#                    for its guest
#   make build/payload/NAME-SUITE-FLAVOUR.img   of perf, peer, kvm and kvm-NAME: for a host whose kernel, with
#                    its modules, is of another of Debian's suites; KVM's guest has this one's. No other
#                    image has it: modules for Debian 13's kernels want gcc 14, which 12 has not
# A program /jobs/NAME in an image is the job NAME for the kernel command line's pmv.run=NAME.

PROGRAMS = $(BUILD)/programs
IMAGES = $(BUILD)/payload
# The path of the tree is in no program and no module. So an image is the same in each copy of the tree.
NO_PLACE = -ffile-prefix-map=$(CURDIR)=.
PROGRAM_CFLAGS = -std=gnu11 -O2 -static $(WARNINGS) $(NO_PLACE) -DLOOP_ROUNDS=1000000 -DACCESS_ROUNDS=10000 \
    -DACCESS_FLUSHES=1000 -Iprograms -Iprograms/payload -Iprograms/measure -Iinclude -I. \
    $(EXPERIMENT_INCLUDES)

# Addresses are in its trace: it is not PIE.
PROGRAM_traced = programs/trace/traced.c
$(PROGRAMS)/programs/trace/%.o: private PROGRAM_CFLAGS += -fno-pie

PROGRAM_init = $(sort $(wildcard programs/payload/*.c)) programs/command_line.c programs/measure/statistics.c
# Jobs of situations that users have reported (tests/e2e/test_situations.py).
$(foreach name,probes keys crash hibernate,$(eval PROGRAM_$(name) = programs/situations/$(name).c \
    programs/payload/support.c programs/command_line.c))
PROGRAM_crash += programs/payload/next_kernel.c programs/payload/processors.c
PROGRAM_hibernate += programs/payload/processors.c
# The checks of a kernel file are the hypervisor's own.
PROGRAM_launch = $(sort $(wildcard programs/kvm/*.c)) guest/linux_probe.c lib/acpi.c lib/refusal.c \
    lib/format.c
$(PROGRAMS)/init $(PROGRAMS)/launch: PROGRAM_LDFLAGS = -s

# Small; with what people use; with perf and drivers of more PMUs; for the jobs kexec and kdump; for
# measurements.
IMAGE_initrd = dev/ proc/ sys/ tmp/ init=$(PROGRAMS)/init loop=$(PROGRAMS)/loop \
    access=$(PROGRAMS)/access msr.ko efivarfs.ko
IMAGE_tools = $(WITH_PERF) busybox $(WORKLOADS) \
    $(foreach name,$(MODULES),lib/modules/$(name).ko=$(BUILD)/module/%/$(name).ko)
IMAGE_perf = $(WITH_PERF) intel-cstate.ko intel-uncore.ko
IMAGE_pt = $(IMAGE_tools) jobs/pt=programs/workloads/pt.sh traced=$(PROGRAMS)/traced
IMAGE_kexec = $(IMAGE_initrd) $(NEXT_KERNEL)
IMAGE_kdump = $(WITH_PERF) $(NEXT_KERNEL)
NEXT_KERNEL = kexec/vmlinuz=$(IMAGES)/vmlinuz-% kexec/initrd=$(IMAGES)/initrd-%.img
IMAGE_situations = $(IMAGE_initrd) $(foreach name,probes keys crash,jobs/$(name)=$(PROGRAMS)/$(name)) \
    jobs/vmcore@crash jobs/nmi@crash lib/modules/pmuvisor_probed.ko=$(BUILD)/module/%/pmuvisor_probed.ko
IMAGE_powercap = $(IMAGE_initrd) busybox disk:intel_rapl_msr jobs/powercap=programs/situations/powercap.sh
IMAGE_mce = $(IMAGE_initrd) busybox mce-inject.ko jobs/mce=programs/situations/mce.sh
IMAGE_latency = $(IMAGE_initrd) busybox jobs/latency=programs/situations/latency.sh \
    workloads/common.sh=programs/workloads/common.sh
IMAGE_hibernate = $(IMAGE_initrd) disk:ata_piix disk:sd_mod jobs/hibernate=$(PROGRAMS)/hibernate
IMAGE_crash = $(IMAGE_situations) kexec/vmlinuz=$(IMAGES)/vmlinuz-% kexec/initrd=$(IMAGES)/situations-%.img
IMAGE_kvm = $(WITH_KVM) kernel.bzImage=$(TEST_KERNEL)
WITH_PERF = $(IMAGE_initrd) listing2=$(PROGRAMS)/listing2 deb:usr/bin/perf
WITH_KVM = $(IMAGE_initrd) irqbypass.ko kvm.ko kvm-intel.ko launch=$(PROGRAMS)/launch
WORKLOADS = etc/passwd=$(IMAGES)/passwd etc/group=$(IMAGES)/group jobs/profile=programs/workloads/profile.sh \
    jobs/nginx=programs/workloads/nginx.sh jobs/sampled=programs/workloads/sampled.sh \
    $(foreach name,common.sh nginx.conf wrk.lua,workloads/$(name)=programs/workloads/$(name))
MODULES = pmuvisor pmuvisor_nmi pmuvisor_measure pmuvisor_stuck pmuvisor_probed
# And the words that experiments have added.
IMAGE_bench := $(WITH_PERF) busybox deb:usr/sbin/nginx deb:usr/bin/wrk $(WORKLOADS) $(IMAGE_bench)

$(PROGRAMS)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(PROGRAM_CFLAGS)' | cmp -s - $@ || echo '$(CC) $(PROGRAM_CFLAGS)' > $@

$(PROGRAMS)/%.o: %.c $(PROGRAMS)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(PROGRAM_CFLAGS) -MMD -MP -c -o $@ $<

$(PROGRAMS)/%.asm.o: %.asm $(PROGRAMS)/flags
	@mkdir -p $(@D)
	$(call say,NASM,$<)
	$(Q)$(NASM) -f elf64 -Werror $(filter -D%,$(PROGRAM_CFLAGS)) -o $@ $<

# Small enough to know each instruction of.
$(PROGRAMS)/loop $(PROGRAMS)/access: $(PROGRAMS)/%: $(PROGRAMS)/programs/payload/%.asm.o
	$(Q)$(LD) -s -o $@ $<

# Its functions are what is measured: none may be inlined or lose its frame pointer.
$(PROGRAMS)/listing2: programs/payload/profile/listing2.c $(PROGRAMS)/flags
	$(call say,CC,$<)
	$(Q)$(CC) -std=gnu11 -Wall -Wextra -Werror -static -O0 -fno-omit-frame-pointer -fno-inline -fno-pie -o $@ $<

define program_rule
$(PROGRAMS)/$(1): $(patsubst %.c,$(PROGRAMS)/%.o,$(PROGRAM_$(1):%.asm=$(PROGRAMS)/%.asm.o))
	$$(call say,LD,$$@)
	$$(Q)$$(CC) -static $$(PROGRAM_LDFLAGS) -o $$@ $$(filter %.o,$$^)
endef
PROGRAM_NAMES = $(patsubst PROGRAM_%,%,$(filter-out %FLAGS %NAMES,$(filter PROGRAM_%,$(.VARIABLES))))
$(foreach name,$(PROGRAM_NAMES),$(eval $(call program_rule,$(name))))

# Written anew only when what they say changes: vmlinuz and the folder of its modules; the folder of
# Debian's packages PACKAGES_NAME, and when it was made.
# $(call changed,COMMAND): $@ is what that prints.
define changed
	@mkdir -p $(@D)
	@said=$$($(1)) && { echo "$$said" | cmp -s - $@ || echo "$$said" > $@; }
endef
suite = $(patsubst %-$(lastword $(subst -, ,$(1))),--suite %,$(filter %-cloud %-stock %-rt,$(1)))
$(IMAGES)/kernel-%.txt: FORCE
	$(call changed,programs/kernel.sh $(call suite,$*) $(lastword $(subst -, ,$*)))
$(IMAGES)/packages-%.txt: FORCE
	$(call changed,folder=$$(programs/workloads/fetch.sh $(PACKAGES_$*)) && echo "$$folder" && stat -c %Y "$$folder")
$(IMAGES)/%.words: FORCE
	$(call changed,echo '$(IMAGE_$*)')

$(IMAGES)/vmlinuz-%: $(IMAGES)/kernel-%.txt
	@mkdir -p $(@D)
	@cp -L "$$(sed -n 1p $<)" $@
$(IMAGES)/passwd: programs/images.mk
	@mkdir -p $(@D)
	@printf '%s\n' 'root:x:0:0::/:/bin/sh' 'www-data:x:33:33::/srv:/bin/false' > $@
$(IMAGES)/group: programs/images.mk
	@mkdir -p $(@D)
	@printf '%s\n' 'root:x:0:' 'www-data:x:33:' > $@

# Modules for the kernel $*, by its headers, of the sources and the Kbuild among what the target needs.
# Type information for BPF would need one more tool, and is of no use here.
define kbuild
	$(call say,KBUILD,$(@D))
	@rm -rf $(@D) && mkdir -p $(@D) && cp $(filter-out %.txt %.mk,$^) $(@D)
	$(Q)headers=$$(programs/kernel.sh --headers $*) && { env -u MAKEFLAGS -u MAKELEVEL -u CC -u CFLAGS \
	    make -C "$$headers" M=$(abspath $(@D)) CONFIG_DEBUG_INFO_BTF_MODULES= KCFLAGS='-g0 $(NO_PLACE)' modules > $(@D)/log 2>&1 || \
	    { grep -m 1 -i error $(@D)/log || tail -n 1 $(@D)/log; echo "see $(@D)/log"; exit 1; } >&2; }
endef
$(foreach name,$(MODULES),$(BUILD)/module/%/$(name).ko): $(wildcard programs/module/* programs/measure/*.[ch]) \
    include/hypercall.h include/instructions.h $(IMAGES)/kernel-%.txt programs/images.mk
	$(kbuild)

# $(call image_rule,NAME,SUITE-FLAVOUR or FLAVOUR,FLAVOUR,WORDS)
define image_rule
$(IMAGES)/$(1)-$(2).img: $(foreach word,$(4),$(word 2,$(subst =, ,$(word)))) $(IMAGES)/kernel-$(2).txt \
    $(if $(filter deb:% busybox,$(4)),$(IMAGES)/packages-guest.txt) $(IMAGES)/$(1).words \
    programs/payload/pack.sh programs/payload/parts.sh
	$$(call say,CPIO,$$@)
	$$(Q)programs/payload/pack.sh $$@ "$$$$(sed -n 2p $(IMAGES)/kernel-$(2).txt)" \
	    "$$$$(sed -n 1p $(IMAGES)/packages-guest.txt 2> /dev/null)" $(4)
endef
GUEST_NAMES := $(patsubst IMAGE_%,%,$(filter-out %_initrd %_kvm %_kexec %_kdump,$(filter IMAGE_%,$(.VARIABLES))))
# The small one is initrd-FLAVOUR.img as a file.
inner = $(WITH_KVM) $(KVM_$(1)) kvm/vmlinuz=$(IMAGES)/vmlinuz-% kvm/initrd=$(IMAGES)/$(1:small=initrd)-%.img
$(foreach name,small $(GUEST_NAMES),$(eval IMAGE_kvm-$(name) = $(call inner,$(name))))
IMAGE_NAMES = initrd kexec kdump kvm kvm-small $(GUEST_NAMES) $(GUEST_NAMES:%=kvm-%)
SUITES = bookworm- trixie- trixie-backports-
$(foreach flavour,cloud stock rt,$(foreach name,$(IMAGE_NAMES),\
    $(foreach suite,$(if $(filter perf peer kvm%,$(name)),$(SUITES)) none,$(eval \
        $(call image_rule,$(name),$(suite:none=)$(flavour),$(flavour),$(subst %,$(flavour),$(IMAGE_$(name))))))))

-include $(foreach name,$(PROGRAM_NAMES),$(patsubst %,$(PROGRAMS)/%.d,$(basename $(PROGRAM_$(name)))))
