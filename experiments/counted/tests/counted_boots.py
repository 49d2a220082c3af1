# SPDX-License-Identifier: BSD-2-Clause
# counted_boots.py: the boots of the test kernel's `counted` (kernel/test_counted.c), one for each
# column.
import os

from experiments.counted.analysis import counted, counted_reasons
from testbed.boots import initrd
from testbed.boots import kernel as linux
from testbed.machine import STATUS_POWEROFF, Skip, path, tool
from tests.e2e import kernel, test_kvm

TEST = "counted"
# Of KVM: the suite of its kernel, and whether its vPMU is mediated.
KVMS = {
    "kvm": ("", 0),
    "kvm-new": (test_kvm.PEER_SUITE, 0),
    "kvm-mediated": (test_kvm.PEER_SUITE, 1),
}


# Of Xen: the test kernel is its dom0, and has COM1, which Xen has not. The other words are as in
# experiments/peers/README.md: no IOMMU and no MSR E2H here, and Bochs refuses its posted
# interrupts.
XEN_WORDS = (
    "console=vga noreboot vpmu=on dom0=pvh dom0-iommu=none mwait-idle=0 apicv=0 dom0_mem=640M "
    "spec-ctrl=no"
)
PVH = path("build", "counted", "pvh.elf")
PEER_MEMORY, PEER_LIMIT = 1024, 8000
INVD_NUMBER = 16  # in rows of test_counted.c


def under_xen(lab, name, word):
    image = tool([path("experiments", "peers", "guest", "xen.sh")]).strip()
    config = (
        f"[global]\ndefault=xen\n\n[xen]\noptions={XEN_WORDS}\nkernel=pvh.elf "
        f"tests={word}\nramdisk=vmlinuz\n"
    )
    return lab.emulator(
        name,
        entry="native",
        kernel=path("build", "kernel.bzImage"),
        initrd=b"none\n",
        menu="chainloader /EFI/pmuvisor/xen.efi\nboot\n",
        memory=PEER_MEMORY,
        limit=PEER_LIMIT,
        add={
            "/EFI/pmuvisor/xen.efi": image,
            "/EFI/pmuvisor/pvh.elf": PVH,
            "/EFI/pmuvisor/xen.cfg": config.encode(),
        },
    )


def bitvisor_folder():
    folder = os.environ.get("BITVISOR")
    if not folder:
        raise Skip("no BitVisor was built: BITVISOR=FOLDER, see experiments/peers/README.md")
    return folder


def under_bitvisor(lab, name, word):
    """Its loader starts it and comes back to GRUB, which is in the guest then."""
    added = [
        os.path.join(bitvisor_folder(), file)
        for file in ("boot/uefi-loader/loadvmm.efi", "bitvisor.elf")
    ]
    return lab.emulator(
        name,
        entry="native",
        kernel=path("build", "kernel.bzImage"),
        initrd=b"none\n",
        menu="chainloader /EFI/pmuvisor/loadvmm.efi\nboot\n"
        f"linux /EFI/pmuvisor/vmlinuz tests={word}\ninitrd /EFI/pmuvisor/initrd.img\nboot\n",
        add={f"/EFI/pmuvisor/{os.path.basename(file)}": file for file in added},
        memory=PEER_MEMORY,
        limit=PEER_LIMIT,
    )


def under_kvm(lab, name, word, suite, mediated):
    words = f"pmv.mediated={mediated} " if suite else ""
    return lab.emulator(
        name,
        entry="native",
        jobs="kvm",
        append=f"{words}pmv.tests={word}",
        limit=test_kvm.LIMIT,
        kernel=linux("cloud", suite),
        initrd=initrd(name=f"kvm-{suite}" if suite else "kvm"),
    )


def boot(lab, column, cpus=1, left_out=0):
    """`cpus` 2: the operations are the second processor's. `left_out`: the event of so many
    counters is."""
    word = (TEST if cpus == 1 else f"@{TEST}") + (f":0:{left_out}" if left_out else "")
    name = f"{TEST}-{column}" + (f"-{cpus}" if cpus > 1 else "") + ("-left-out" if left_out else "")
    if column == "xen":
        return under_xen(lab, name, word)
    if column == counted_reasons.BITVISOR:
        return under_bitvisor(lab, name, f"{TEST}:0:{left_out}:{1 << INVD_NUMBER}")
    if column in KVMS:
        return under_kvm(lab, name, word, *KVMS[column])
    return kernel.run(lab, name, kernel.Plan().add(word), entry=column, cpus=cpus)


def counts(lab, column, **how):
    """A column, as counted.py has it."""
    done = boot(lab, column, **how)
    done.expect_status(STATUS_POWEROFF)
    results = done.lines("results")
    # The single step that BitVisor loses is a failure of the test.
    strange = [line["row"] for line in done.lines(TEST) if line.get("strange", "0") != "0"]
    assert strange == (["step_cpuid"] if column == counted_reasons.BITVISOR else []), (
        column,
        strange,
    )
    failed = "1" if strange else "0"
    assert (
        len(results) == 1 and results[0]["failed"] == failed
    ), f"{column}: {kernel.notes(done)} {results}"
    return counted.counts(done.lines(TEST), done.ledger["regions"])


def host(lab, column):
    """What hypervisor a column has that is not ours: what KVM's boot says; Xen's file; BitVisor's
    commit."""
    if column == "xen":
        return os.path.basename(tool([path("experiments", "peers", "guest", "xen.sh")]).strip())
    if column == counted_reasons.BITVISOR:
        return tool(["git", "-C", bitvisor_folder(), "rev-parse", "--short", "HEAD"]).strip()
    line = next(line for line in boot(lab, column).lines("kvm") if "release" in line)
    return " ".join(
        f"{key}={line[key]}" for key in ("release", "enable_mediated_pmu", "enable_apicv")
    )


def all_counts(lab):
    """({column: its counts}, {column: its hypervisor}), without BitVisor's where none was built."""
    columns = [
        column
        for column in counted.COLUMNS
        if column != counted_reasons.BITVISOR or os.environ.get("BITVISOR")
    ]
    others = [
        column
        for column in columns
        if column in KVMS or column in ("xen", counted_reasons.BITVISOR)
    ]
    return {column: counts(lab, column) for column in columns}, {
        column: host(lab, column) for column in others
    }
