# SPDX-License-Identifier: BSD-2-Clause
#
# Onto an EFI system partition or a stick, and back from it; included by tests/tests.mk, where it is
# there.
#
#   make install ESP=DIR [KERNEL=FILE INITRD=FILE]   the hypervisor, a kernel, the boot menu, and an
#                     entry for each column of the measurements
#   make usb [KERNEL=FILE INITRD=FILE]   the same and GRUB, as the image of a stick for dd,
#                     build/pmuvisor-usb.img, and as a tree, build/usb
#     BENCH=thesis    the next boots of that menu measure the thesis's tables, within an hour
#     BENCH=all       the same with every column and every experiment once, in hours
#     BENCH=none      without the measurements (install)
#     SIGN_KEY=FILE SIGN_CERT=FILE   the image, and the stick's GRUB and shim, are signed for Secure Boot
#     GUEST=stock|cloud   the kernel that measures (default: stock, which has real disks' drivers)
#   make collect ESP=DIR   results.json and report.html of the results that are there, and
#                     machine.json, the file to send, in bench/out/metal (COLLECT_OUT=); ESP=HOST:DIR
#                     gets the results by ssh
#   make deb          the images, pmuvisor-check and GRUB's entries as a package of Debian, in build/deb
#   make pmuvisor-check   a program for Linux that says what the image would: metal/check/check.mk

include metal/check/check.mk

# The image that has the options on the volume; EXPERIMENTS="name ..." on the line: the one with these.
INSTALL_IMAGE = $(if $(filter command%,$(origin EXPERIMENTS)),$(LAB),$(shell \
    testbed/image.sh "$$(cat '$(ESP)/EFI/pmuvisor/pmuvisor.cfg' 2> /dev/null)" $(BUILD)))

BENCH ?=
COLLECT_OUT ?= $(BENCH_OUT)/metal
USB_IMAGE ?= $(BUILD)/pmuvisor-usb.img
USB_TREE ?= $(BUILD)/usb
# tests.mk sets GUEST for the emulator, where nobody did, and exports it: a second make is told.
INSTALL_GUEST = $(if $(filter file,$(origin GUEST)),stock,$(GUEST))
SIGN_KEY ?=
SIGN_CERT ?=
SIGN = $(if $(SIGN_KEY)$(SIGN_CERT),--key "$(SIGN_KEY)" --cert "$(SIGN_CERT)")
SIGN_DEPENDENCIES = $(if $(SIGN),sign)
INSTALL_DEPENDENCIES = $(if $(filter none,$(BENCH)),build,build bench) $(SIGN_DEPENDENCIES)
# Before anything is built.
SIGN_CHECK = $(if $(SIGN),@metal/sign.sh "$(SIGN_KEY)" "$(SIGN_CERT)")
# The measurements are made of Debian's packages; elsewhere they are left out, or come by a stick.
OS_RELEASE ?= /etc/os-release
APT = $(shell . $(OS_RELEASE) 2> /dev/null; [ "$$ID" != debian ] || command -v apt-get)

# What a bare machine needs to measure all columns is $(BUILD)/auto/FLAVOUR: vmlinuz (Debian's kernel),
# initrd.img, kernel.bzImage, build.txt (what built them), the images of PMUvisor that a part has, and
# of each peer's suite vmlinuz-SUITE and initrd-SUITE.img, which runs KVM. REAL=0: without the large real programs. The
# initial RAM disk has auto.sh as PID 1, and the drivers of disks of PCs and servers, of sticks, of
# keyboards for the stick's shell, and of the file system of an EFI system partition.
DISK_DRIVERS = nvme vmd ahci ata_piix ata_generic virtio_pci virtio_blk virtio_scsi sd_mod xhci_pci \
    ehci_pci usb_storage uas sdhci_pci sdhci_acpi mmc_block ufshcd_pci mpi3mr megaraid_sas mpt3sas \
    smartpqi hpsa aacraid isci pm80xx mvsas arcmsr mptsas mptspi vmw_pvscsi hv_storvsc usbhid \
    hid_generic vfat nls_cp437 nls_ascii nls_iso8859_1
WITH_AUTO = $(DISK_DRIVERS:%=disk:%) \
    $(foreach file,$(wildcard metal/auto/[fjp]*.sh) bench/measurements.sh \
    programs/measure/measure.sh,lib/auto/$(notdir $(file))=$(file)) \
    $(foreach file,bench/measurements.ini $(sort $(wildcard experiments/*/measurements.ini)),lib/auto/$(file)=$(file)) \
    auto=metal/auto/auto.sh
IMAGE_auto = $(foreach name,kvm bench $(AUTO_IMAGES) tools,$(IMAGE_$(name))) $(WITH_AUTO) \
    jobs/shell=metal/auto/shell.sh bin/pmuvisor-check=$(CHECK_PROGRAM)
IMAGE_peer = $(IMAGE_kvm) busybox $(WITH_AUTO)
# By the table: the suites of the peers' kernels, and the images of the parts that a plan has.
PEER_SUITES := $(shell sed -n 's|^[a-z0-9+-]* *= *peer *host=\([a-z-]*\).*|\1|p' bench/measurements.ini | sort -u)
PART_IMAGES := $(foreach part,$(shell measurements_top=. sh -c '. bench/measurements.sh; part_names'),$(shell \
    sed -n 's|^$(part) .*image=\([a-z0-9_]*\).*|\1|p' bench/measurements.ini))
AUTO_MORE = $(foreach suite,$(PEER_SUITES),$(BUILD)/payload/peer-$(suite)-$(1).img $(BUILD)/payload/vmlinuz-$(suite)-$(1)) \
    $(PART_IMAGES:%=$(BUILD)/mutants/%.efi)
define auto_rule
$(BUILD)/auto/$(1)/build.txt: $(BUILD)/payload/auto-$(1).img $(BUILD)/payload/vmlinuz-$(1) $(TEST_KERNEL) \
    $(call AUTO_MORE,$(1)) FORCE
	@mkdir -p $$(@D)
	@cp -u $$< $$(@D)/initrd.img; cp -u $(BUILD)/payload/vmlinuz-$(1) $$(@D)/vmlinuz; cp -u $(TEST_KERNEL) $$(@D)
	@cp -u $(PART_IMAGES:%=$(BUILD)/mutants/%.efi) $$(@D); $(foreach suite,$(PEER_SUITES),\
	    cp -u $(BUILD)/payload/peer-$(suite)-$(1).img $$(@D)/initrd-$(suite).img; \
	    cp -u $(BUILD)/payload/vmlinuz-$(suite)-$(1) $$(@D)/vmlinuz-$(suite))
	@printf 'env: %s="%s"\n' version "$$$$(git describe --always --dirty --tags 2> /dev/null || \
	    echo unknown)" compiler "$$$$($(CC) --version | head -n 1 | tr -d '"')" > $$@
endef
$(foreach flavour,cloud stock,$(eval $(call auto_rule,$(flavour))))

BENCH_WAS = auto) echo "make: BENCH=auto is called BENCH=all now; BENCH=thesis takes an hour" >&2; exit 1 ;;
.PHONY: install install-parts usb usb-parts collect
ifeq ($(APT)$(BENCH),)
install: BENCH = none
endif
install:
	@case "$(BENCH)" in '' | thesis | all | none) ;; $(BENCH_WAS) \
	    *) echo "make install: BENCH=$(BENCH), wanted thesis, all or none" >&2; exit 1 ;; esac
	@[ -n "$(APT)" ] || [ "$(BENCH)" = none ] || { echo "make install: BENCH=$(BENCH) wants" \
	    "Debian's packages, and this is another system; make usb on a Debian machine makes a stick that" \
	    "measures" >&2; exit 1; }
	@metal/install.sh --check "$(ESP)"
	@testbed/deps.sh $(INSTALL_DEPENDENCIES)
	$(SIGN_CHECK)
	@$(MAKE) --no-print-directory install-parts BENCH=$(BENCH) INSTALL_GUEST=$(INSTALL_GUEST)

# pmuvisor-check is static, which other distributions may not have the libraries for.
INSTALL_PARTS = $(BUILD)/auto/$(INSTALL_GUEST)
install-parts: $(EFI) $(LAB) $(if $(filter none,$(BENCH)),,$(INSTALL_PARTS)/build.txt) $(if $(APT),$(CHECK_PROGRAM))
	@metal/install.sh $(if $(filter none,$(BENCH)),,--bench $(INSTALL_PARTS)) \
	    $(if $(filter-out none,$(BENCH)),--plan $(BENCH)) $(SIGN) "$(ESP)" $(INSTALL_IMAGE) "$(KERNEL)" "$(INITRD)"

usb:
	@case "$(BENCH)" in '' | thesis | all) ;; $(BENCH_WAS) \
	    *) echo "make usb: BENCH=$(BENCH), wanted thesis, all or nothing" >&2; exit 1 ;; esac
	@testbed/deps.sh build run $(SIGN_DEPENDENCIES)
	$(SIGN_CHECK)
	@$(MAKE) --no-print-directory usb-parts INSTALL_GUEST=$(INSTALL_GUEST)

usb-parts: $(EFI) $(LAB) $(INSTALL_PARTS)/build.txt $(CHECK_PROGRAM)
	@metal/usb.sh --bench $(INSTALL_PARTS) $(if $(BENCH),--plan $(BENCH)) $(SIGN) --tree $(USB_TREE) --out $(USB_IMAGE) \
	    $(INSTALL_IMAGE) $(KERNEL) $(INITRD)

collect:
	@[ -d "$(ESP)" ] || [ "$(findstring :,$(ESP))" ] || { echo "collect: $(if $(ESP),ESP: '$(ESP)' is not there,no ESP given);" \
	    "say where the EFI system partition is mounted: make collect ESP=/boot/efi" >&2; exit 1; }
	@testbed/deps.sh bench
	@$(PYTHON) -m metal.collect "$(ESP)" "$(COLLECT_OUT)"

# ---- the Debian package ----
# metal/debian is the package's folder debian/. It packs files that make has built.
DEB = $(BUILD)/deb
DEB_TREE = $(DEB)/pmuvisor
DEB_FILES = $(EFI) $(LAB) $(DEB)/pmuvisor-check $(DEB)/pmuvisor-check.8 docs/pmuvisor.7
# In a version of Debian, - divides the version from the package's own revision.
DEB_VERSION = $(shell sed -n 's/^.define PMUVISOR_VERSION_TEXT "\(.*\)"/\1/p' include/hypercall.h)+$(shell \
    git describe --always --dirty --tags | tr -c 'A-Za-z0-9.~\n' .)
DEB_MAINTAINER = $(shell git log -1 --format='%an <%ae>')

.PHONY: deb deb-parts
deb:
	@testbed/deps.sh build deb
	@$(MAKE) --no-print-directory deb-parts

# A package can depend on the C library.
$(DEB)/pmuvisor-check: $(CHECK_OWN_OBJECTS) $(CHECK)/image.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(filter-out -static,$(CHECK_LDFLAGS)) -Wl,-z,relro,-z,now -o $@ $^

$(DEB)/pmuvisor-check.8: metal/debian/pmuvisor-check.8.sed $(DEB)/pmuvisor-check
	$(Q)$(DEB)/pmuvisor-check --help | sed -f $< > $@

deb-parts: $(DEB_FILES)
	@rm -rf $(DEB_TREE) && mkdir $(DEB_TREE)
	@cp $(DEB_FILES) $(DEB_TREE) && chmod -x $(DEB_TREE)/*.efi && cp -r metal/debian $(DEB_TREE)
	@cat LICENSE /usr/share/doc/gnu-efi/copyright > $(DEB_TREE)/debian/copyright
	@sed -i 's/@MAINTAINER@/$(DEB_MAINTAINER)/' $(DEB_TREE)/debian/control
	@printf '%s\n' 'pmuvisor ($(DEB_VERSION)) unstable; urgency=medium' '' '  * Built from this commit.' '' \
	    " -- $(DEB_MAINTAINER)  $$(git log -1 --format=%cD)" > $(DEB_TREE)/debian/changelog
	@cd $(DEB_TREE) && DEB_BUILD_OPTIONS=noautodbgsym dpkg-buildpackage -b -d -us -uc > ../build.log 2>&1 || \
	    { tail -n 5 ../build.log >&2; exit 1; }
	@echo $(DEB)/pmuvisor_$(DEB_VERSION)_amd64.deb
