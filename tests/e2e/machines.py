# SPDX-License-Identifier: BSD-2-Clause
# machines.py: odd machines, for the tests: the test bed's own ACPI tables, changed; the knobs of
# hybrid ones.
import os
import struct

# A P-core and an E-core, as metal/tests/dumps/arrow-lake.dump has their counters; their branch
# records and PEBS differ, too.
ARROW_LAKE = [
    "pmu_version 6",
    "arch_lbr on",
    "pebs 4",
    "cpuid 7 0 edx 0x8000",
    "processor 0 cpuid 0x1a 0 eax 0x40000003",
    "processor 0 pmu_general_mask 0x3ff",
    "processor 0 pmu_fixed_mask 0xf",
    "processor 0 pmu_metrics on",
    "processor 1 cpuid 0x1a 0 eax 0x20000003",
    "processor 1 pmu_general_mask 0xff",
    "processor 1 pmu_fixed_mask 0x77",
    "processor 1 arch_lbr 8",
    "processor 1 pebs off",
]
# What Linux 6.1 takes for an Alder Lake (alder-lake.dump, on Bochs' model of the nearest
# processor): CPUID.0AH names the counters that all cores have, and the P-core has more. Without
# hardware feedback, whose registers the emulator lacks.
ALDER_LAKE_MODEL = "arrow_lake"
ALDER_LAKE = [
    "pmu_version 5",
    "pmu_general_mask 0x3f",
    "pmu_fixed_mask 7",
    "arch_lbr on",
    "pebs 4",
    "hide_cpuid 1 0 eax 0xfffffff",
    "cpuid 1 0 eax 0x90672",
    "hide_cpuid 6 0 eax 0x980000",
    "cpuid 7 0 edx 0x8000",
    "processor 0 cpuid 0x1a 0 eax 0x40000001",
    "processor 0 pmu_general_mask 0xff",
    "processor 0 pmu_fixed_mask 0xf",
    "processor 0 pmu_metrics on",
    "processor 0 hide_cpuid 0xa 0 eax 0xff00",
    "processor 0 cpuid 0xa 0 eax 0x600",
    "processor 0 hide_cpuid 0xa 0 ecx 0x8",
    "processor 0 hide_cpuid 0xa 0 edx 0x1f",
    "processor 0 cpuid 0xa 0 edx 3",
    "processor 1 cpuid 0x1a 0 eax 0x20000001",
]

LENGTH, CHECKSUM = 4, 9  # offsets in a table's header; ACPI, "System Description Table Header"
HEADER_BYTES = 36


def sealed(table):
    """The table with its length and checksum."""
    table = bytearray(table)
    struct.pack_into("<I", table, LENGTH, len(table))
    table[CHECKSUM] = 0
    table[CHECKSUM] = -sum(table) & 0xFF
    return table


def header(signature):
    return struct.pack("<4sIBB6s8sI4sI", signature, 0, 1, 0, b"PMUV", b"TESTBED", 1, b"INTL", 1)


def edit(folder, name, change):
    """Writes one of the compiled tables anew, as `change` gives it."""
    file = os.path.join(folder, f"{name}.aml")
    with open(file, "rb") as source:
        table = bytearray(source.read())
    with open(file, "wb") as out:
        out.write(change(table))


def write(folder, name, table):
    with open(os.path.join(folder, f"{name}.aml"), "wb") as out:
        out.write(table)


def spcr(space, address, rate=7, kind=0):
    """Microsoft, "Serial Port Console Redirection Table", revision 2."""
    return sealed(
        header(b"SPCR")
        + struct.pack(
            "<B3xBBBBQBBIBBBBBx", kind, space, 8, 0, 1, address, 0, 4, 0, rate, 0, 1, 0, 3
        )
        + struct.pack("<HHBBBIBI", 0xFFFF, 0xFFFF, 0, 0, 0, 0, 0, 0)
    )


def local_apic(number, apic_id):
    return struct.pack("<BBBBI", 0, 8, number, apic_id, 1)


def local_x2apic(number, apic_id):
    return struct.pack("<BBxxIII", 9, 16, apic_id, 1, number)


def pkg_length(size):
    """AML's PkgLength of four bytes, for what has `size` bytes after it."""
    size += 4
    return bytes([3 << 6 | size & 15, size >> 4 & 255, size >> 12 & 255, size >> 20 & 255])


def padding(size):
    """AML: Name (PADD, Buffer () {...}) with so many bytes."""
    length = b"\x0c" + struct.pack("<I", size)
    return b"\x08PADD\x11" + pkg_length(len(length) + size) + length + bytes(size)
