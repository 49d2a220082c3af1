# SPDX-License-Identifier: BSD-2-Clause
# test_emulator.py: the emulator itself, by the parts of the test kernel that hold it against the
# SDM (tests/kernel/emulator*.c). A boot's key has the emulator in it, so each new build of the
# emulator passes here, or is found out.
import dataclasses
import os

import pytest

from testbed.boots import Emulated, Machine
from testbed.emulated import volume
from testbed.machine import path
from tests.e2e.kernel import expect_ok

ANY_PMU = ["apic", "timer", "debug", "smap", "files"]
PMU_4 = [*ANY_PMU, "pmu", "events", "lbr", "step", "vmx", "inject", "virtual"]
PARTS = {
    "plain": PMU_4,
    "skid": PMU_4,
    "shape": [*ANY_PMU, "shape", "step"],
    "pt": ["pt", "pt_guest"],
    "ptwrite": ["pt", "pt_guest"],
    "counts": ["counts"],
}
SKID = 5
KNOBS = {
    "plain": "guest_files guest\n",
    "skid": f"pmi_skid {SKID}\n",
    "shape": "pmu_version 6\npmu_general_mask 0xcf\npmu_fixed_mask 0x2b\n",
    "pt": "pt on\n",
    "ptwrite": "pt ptwrite\n",
    "counts": "msr 0x48 0\nmsr 0x10b 0\n",
}
WORDS = "some words"


def boot(lab, name):
    what = volume(
        entry="native",
        kernel=path("build", "kernel.bzImage"),
        initrd=b"none\n",
        append="tests=" + ",".join(f"emulator:{part}" for part in PARTS[name]),
    )
    model = "sapphire_rapids" if name == "shape" else None
    what = dataclasses.replace(what, words=WORDS)
    return lab.boot(Emulated(f"emulator-{name}", what, Machine(model=model, knobs=KNOBS[name])))


@pytest.mark.parametrize("name", PARTS)
def test_parts(lab, name):
    expect_ok(boot(lab, name), [f"emulator:{part}" for part in PARTS[name]])


def test_words(lab):
    assert boot(lab, "plain").lines("emulator")[0]["words"] == WORDS


def test_files(lab):
    """Pieces of one name are one file; a file with another name, or too long, is ignored."""
    plain = boot(lab, "plain")
    folder = plain.path("guest")
    sizes = {name: os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)}
    assert sizes == {"empty": 0, "pages": 12287, "words": 7}
    assert plain.read("files/guest/words") == b"one two"
    ignored = [line for line in plain.errors.splitlines() if "run.sh: ignored: " in line]
    assert len(ignored) == 6, plain.errors


def test_skid(lab):
    """The PMI's NMI comes so many instructions later, in both modes of the APIC."""
    plain, skid = (
        [int(row["position"]) for row in boot(lab, name).lines("emulator") if "position" in row]
        for name in ("plain", "skid")
    )
    assert len(plain) == 2 and skid == [position + SKID for position in plain], (plain, skid)


def test_counts(lab):
    """The ledger counts each kind as often as it was executed, in its world, and no other kind. Nor
    does an instruction that faults or exits count."""
    counts = boot(lab, "counts")
    rows = [row for row in counts.lines("emulator") if "region" in row]
    kinds = {row["kind"] for row in rows}
    found = [counts.region(int(row["region"]))["executed"] for row in rows]
    assert all(kinds - {"none"} == set(one[world]) for one in found for world in one)
    for row, executed in zip(rows, found):
        wanted = {world: dict.fromkeys(executed[world], 0) for world in executed}
        if row["kind"] != "none":
            wanted[row["world"]][row["kind"]] = int(row["count"])
        assert executed == wanted, row
