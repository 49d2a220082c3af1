# SPDX-License-Identifier: BSD-2-Clause
# test_nmi_context.py: the hypervisor keeps the rules of NMI context, by either compiler, and
# nmi_context.py sees each rule broken: by an object in the place of one of the hypervisor's, or by
# a row that does not apply.
import subprocess
import sys
from unittest import mock

import pytest

from testbed.machine import TOP, path
from tests.static import nmi_context

SOURCE = "nmi/source.c"
# What takes the place of nmi/source.c. BREAKS is in a row of its table, so that it is found by
# that.
PLANTED = """
typedef unsigned long u64;
struct cpu;
void log_printf(const char *, ...);
void nmi_unblock(void);
void nmi_hold(struct cpu *);
unsigned apic_lvtpc_read(void);
void apic_lvtpc_write(unsigned);
unsigned word;
_Bool flag;
static _Bool take(struct cpu *cpu, int found) { BREAKS; return apic_lvtpc_read() == 1; }
static void handle(struct cpu *cpu, u64 rip, _Bool in_root) { apic_lvtpc_write(0); }
static const struct {
    _Bool (*take)(struct cpu *, int);
    void (*handle)(struct cpu *, u64, _Bool);
} sources[3] = {{take, handle}, {take, handle}, {take, handle}};
unsigned nmi_claim(struct cpu *cpu, int found, u64 rip, _Bool in_root)
{
    unsigned n = 0, now = word;
    for (unsigned s = 0; s < 3; s++)
        if (sources[s].take(cpu, found)) {
            sources[s].handle(cpu, rip, in_root);
            n++;
        }
    __atomic_compare_exchange_n(&word, &now, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return n;
}
_Bool host_work_stop_counter(const struct cpu *cpu) { return 0; }
const char *nmi_source_name(int s) { return sources[s].take ? "a" : "b"; }
_Bool platform_nmi_pending(const struct cpu *cpu) { return 0; }
"""
BROKEN = {
    "vmread": (
        'u64 v; __asm__ volatile("vmread %1, %0" : "=r"(v) : "r"(0UL) : "cc")',
        "has an access to the VMCS: vmread",
    ),
    "vmwrite": (
        '__asm__ volatile("vmwrite %0, %1" : : "r"(0UL), "r"(0UL) : "cc")',
        "has an access to the VMCS: vmwrite",
    ),
    "iret": ('__asm__ volatile("iretq")', "has an IRET: iretq"),
    "unblock": ("nmi_unblock()", "take reaches nmi_unblock() in nmi/unblock.asm, wanted a file of"),
    "exit context": (
        "nmi_hold(cpu)",
        "take reaches nmi_hold() in nmi/bookkeeping.c, wanted a file of FILES",
    ),
    "lock": (
        "while (__atomic_test_and_set(&flag, __ATOMIC_ACQUIRE)) ;",
        "has an exchange with memory, which takes a lock: xchg",
    ),
    "prints": (
        'log_printf("NMI")',
        "take reaches log_printf(), which prints or takes the log's lock",
    ),
}


@pytest.fixture(name="plant")
def plant_in(tmp_path):
    """What is found with this text, compiled, in the place of a source, or as one more."""

    def plant(text, source=SOURCE, folder="build"):
        planted = tmp_path / "planted.c"
        planted.write_text(text, encoding="ascii")
        subprocess.run(
            [
                "gcc",
                "-O2",
                "-w",
                "-fpie",
                "-fvisibility=hidden",
                "-c",
                "-o",
                tmp_path / "planted.o",
                planted,
            ],
            check=True,
        )
        files = nmi_context.files_of(path(folder))
        assert source in files
        return list(
            nmi_context.broken(nmi_context.Code({**files, source: str(tmp_path / "planted.o")}))
        )

    return plant


def found(folder):
    done = subprocess.run(
        [sys.executable, "-m", "tests.static.nmi_context", folder],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_gcc():
    return found("build")


def test_clang(tmp_path):
    subprocess.run(
        ["make", f"BUILD={tmp_path}", "CC=clang", f"{tmp_path}/pmuvisor.elf"],
        cwd=TOP,
        check=True,
        capture_output=True,
    )
    return found(str(tmp_path))


def test_sees(plant):
    """Each rule, broken in a function that only the table names; without it nothing is found."""
    assert plant(PLANTED.replace("BREAKS", "")) == []
    for name, (text, line) in BROKEN.items():
        wrong = plant(PLANTED.replace("BREAKS", text))
        assert [one for one in wrong if line in one], (name, wrong)


def test_sees_compare_exchange(plant):
    """A compare-exchange in another file than the notes'."""
    wrong = plant(
        """
        unsigned word;
        unsigned apic_lvtpc_read(void)
        {
            unsigned free = 0;
            while (!__atomic_compare_exchange_n(&word, &free, 1, 0, 2, 2))
                free = 0;
            return word;
        }
        void apic_lvtpc_write(unsigned value) { word = value; }
        _Bool apic_send_self_nmi(void) { return 0; }
        """,
        "apic/apic.c",
    )
    line = "apic_lvtpc_read() in apic/apic.c has a compare-exchange"
    assert [one for one in wrong if line in one], wrong


def test_sees_an_end_that_comes_back(plant):
    wrong = plant("void vmcs_access_failed(unsigned encoding, _Bool write) { }", "vmx/vmcs.c")
    assert [
        one for one in wrong if one == "vmcs_access_failed() is in ENDS, and may come back"
    ], wrong


def test_sees_an_unnamed_call(plant):
    """An indirect call that goes by no table."""
    with pytest.raises(nmi_context.Unclear, match="found the indirect 'call"):
        plant(
            """
        unsigned apic_lvtpc_read(void) { return ((unsigned (**)(void))8)[0]() + 1; }
        void apic_lvtpc_write(unsigned value) { }
        _Bool apic_send_self_nmi(void) { return 0; }
        """,
            "apic/apic.c",
        )


@pytest.mark.parametrize(
    "rows, row, line",
    [
        ("FILES", {"mm/ept.c": "no use"}, "found no use of the row mm/ept.c"),
        ("ENDS", {"machine_reset": "no use"}, "found no use of the row machine_reset"),
        (
            "EXCEPTIONS",
            {("apic/apic.c", "an IRET"): "no use"},
            "found no use of the row ('apic/apic.c', 'an IRET')",
        ),
    ],
    ids=["file", "end", "exception"],
)
def test_sees_a_stale_row(rows, row, line):
    code = nmi_context.Code(nmi_context.files_of(path("build")))
    with mock.patch.dict(getattr(nmi_context, rows), row):
        assert [one for one in nmi_context.broken(code) if line in one]


def test_without_a_row():
    """Each row is needed: without it something is found."""
    code = nmi_context.Code(nmi_context.files_of(path("build")))
    for rows in nmi_context.FILES, nmi_context.ENDS, nmi_context.EXCEPTIONS:
        for row in list(rows):
            with mock.patch.dict(rows):
                del rows[row]
                assert list(nmi_context.broken(code)), row
