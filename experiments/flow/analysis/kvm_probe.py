# SPDX-License-Identifier: BSD-2-Clause
# kvm_probe.py: the kprobe event `vcpu` for kvm_trace.py: CR3 and RSP of a virtual processor right
# before its entry, where KVM knows them. It prints the line for tracefs' file kprobe_events.
# Usage: python3 -m experiments.flow.analysis.kvm_probe [VMLINUX KVM_INTEL]
#   each as the kernel's type information (/sys/kernel/btf/, the default) or an ELF file with it
# A kprobe cannot execute VMREAD: it sees what KVM holds in struct kvm_vcpu, with KVM's own bit of
# whether that is the guest's now. timeline.md, "A KVM host's trace", has how often it is.
# Linux, Documentation/trace/kprobetrace.rst; arch/x86/kvm/kvm_cache_regs.h.
import sys

from experiments.flow.analysis import btf

DEFAULT = ("/sys/kernel/btf/vmlinux", "/sys/kernel/btf/kvm_intel")
FUNCTION = "kvm_intel:vmx_vcpu_run"  # its first argument is the struct kvm_vcpu
WORD, KNOWN_BITS = 8, 32


def probe(vmlinux, module):
    """Takes the BTF sections of the kernel and of kvm-intel; gives the line. KeyError, ValueError:
    this kernel has it otherwise."""
    types = btf.Types(module, btf.Types(vmlinux))
    at = {
        name: types.offset("kvm_vcpu", path)
        for name, path in (
            ("vcpu", "vcpu_id"),
            ("cr3", "arch.cr3"),
            ("regs", "arch.regs"),
            ("known", "arch.regs_avail"),
        )
    }
    words = [f"p:vcpu {FUNCTION} vcpu=+{at['vcpu']}(%di):u32"]
    rsp = types.enumerator("VCPU_REGS_RSP")
    for name, place, bit in (
        ("cr3", at["cr3"], types.enumerator("VCPU_EXREG_CR3")),
        ("rsp", at["regs"] + WORD * rsp, rsp),
    ):
        words.append(
            f"{name}=+{place}(%di):x64 {name}_known=+{at['known']}(%di):b1@{bit}/{KNOWN_BITS}"
        )
    return " ".join(words)


def read(path):
    with open(path, "rb") as source:
        data = source.read()
    return btf.section(data) if data.startswith(b"\x7fELF") else data


def main():
    if len(sys.argv) not in (1, 3) or sys.argv[1:2] == ["--help"]:
        sys.exit(
            "usage: python3 -m experiments.flow.analysis.kvm_probe [VMLINUX KVM_INTEL]"
            "    default: " + " ".join(DEFAULT)
        )
    try:
        print(probe(*(read(path) for path in sys.argv[1:] or DEFAULT)))
    except (OSError, KeyError, ValueError) as error:
        sys.exit(
            f"kvm_probe.py: {error}; wanted a kernel with CONFIG_DEBUG_INFO_BTF_MODULES and "
            "kvm-intel loaded"
        )


if __name__ == "__main__":
    main()
