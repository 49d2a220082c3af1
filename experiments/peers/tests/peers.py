# SPDX-License-Identifier: BSD-2-Clause
# peers.py: boots beneath which another hypervisor may be: Debian's stock kernel natively, under
# PMUvisor, as the PVH dom0 of Debian's Xen, or under BitVisor. Xen's dom0 is in VMX non-root
# operation then, with a virtual PMU and a virtual local APIC, and no tools of Xen are needed.
import os
import re

from testbed import boots
from testbed.machine import PAYLOAD_APPEND, path, tool

FLAVOUR = "stock"  # the cloud kernel has no CONFIG_XEN_DOM0
MEMORY = 1024
DOM0_MEMORY = "640M"
LIMIT = 30_000  # millions of instructions
JOBS = ("a1bench", "measure", "profile")
WORDS = (
    "loglevel=4 pmv.runs=3 pmv.operations=100 pmv.a1_runs=2 pmv.profile_items=plain,profiled "
    "pmv.profile_runs=1 pmv.iter=1250000 pmv.period=50021 nmi_watchdog=0 "
    "sysctl.kernel.perf_cpu_time_max_percent=0"
)
# No VT-d here, which Xen wants for a PVH dom0 unless told otherwise; no MSR E2H, which its
# mwait-idle reads on this model; and Bochs refuses its posted-interrupt descriptor, as it does
# KVM's.
XEN_WORDS = (
    "console=com1 com1=115200,8n1 noreboot vpmu=on dom0=pvh dom0-iommu=none mwait-idle=0 apicv=0 "
    f"dom0_mem={DOM0_MEMORY}"
)
CONSOLE = re.compile(r"^console=\S+")


def initrd():
    return boots.initrd(FLAVOUR, "peers")


def plain(lab, entry):
    """The kernel natively, or under a policy of PMUvisor."""
    return lab.emulator(
        f"peers-{entry}",
        entry=entry,
        kernel=lab.kernel(FLAVOUR),
        initrd=initrd(),
        jobs=",".join(JOBS),
        append=WORDS,
        memory=MEMORY,
        config="console=none user_hypercalls=1",
        limit=LIMIT,
    )


def bitvisor(lab, folder):
    """The kernel under the BitVisor that was built in this folder of its sources: its loader starts
    it and comes back to GRUB, which is in the guest then."""
    added = (
        os.path.join(folder, "boot", "uefi-loader", "loadvmm.efi"),
        os.path.join(folder, "bitvisor.elf"),
    )
    words = f"{PAYLOAD_APPEND} {WORDS} pmv.run={','.join(JOBS)} pmv.end=poweroff"
    return lab.emulator(
        "peers-bitvisor",
        entry="native",
        kernel=lab.kernel(FLAVOUR),
        initrd=initrd(),
        menu="chainloader /EFI/pmuvisor/loadvmm.efi\nboot\n"
        f"linux /EFI/pmuvisor/vmlinuz {words}\ninitrd /EFI/pmuvisor/initrd.img\nboot\n",
        add={f"/EFI/pmuvisor/{os.path.basename(file)}": file for file in added},
        memory=MEMORY,
        limit=LIMIT,
    )


def xen(lab, name, options, jobs=JOBS):
    """The kernel as dom0 of Xen with these options after XEN_WORDS."""
    linux = f"{CONSOLE.sub('console=hvc0', PAYLOAD_APPEND)} {WORDS}"
    image = tool([path("experiments", "peers", "guest", "xen.sh")]).strip()
    config = (
        f"[global]\ndefault=xen\n\n[xen]\noptions={XEN_WORDS} {options}\n"
        f"kernel=vmlinuz {linux} pmv.run={','.join(jobs)} pmv.end=poweroff\n"
        "ramdisk=initrd.img\n"
    )
    return lab.emulator(
        f"peers-{name}",
        entry="native",
        kernel=lab.kernel(FLAVOUR),
        initrd=initrd(),
        jobs="none",
        menu="chainloader /EFI/pmuvisor/xen.efi\nboot\n",
        add={"/EFI/pmuvisor/xen.efi": image, "/EFI/pmuvisor/xen.cfg": config.encode()},
        memory=MEMORY,
        limit=LIMIT,
    )
