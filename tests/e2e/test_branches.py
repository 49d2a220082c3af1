# SPDX-License-Identifier: BSD-2-Clause
# test_branches.py: branch records under Debian's kernel: Debian's perf record -b, natively and
# under PMUvisor, with the ring of Skylake, with architectural records, and where these are hidden.
import re

import pytest

from testbed.machine import STATUS_POWEROFF

# Linux takes the architectural records only on models that have no other ones by its own tables.
RECORDS = {"ring": {}, "arch": {"knobs": "arch_lbr on\n", "model": "sapphire_rapids"}}
HIDDEN = {**RECORDS["arch"], "knobs": "arch_lbr on\nhide_control load_lbr_ctl\n"}
DEPTH = 32
RDMSR, WRMSR = "31", "32"


def branches(lab, entry, machine, name):
    boot = lab.emulator(
        f"branches-{entry}-{name}",
        entry=entry,
        tools=True,
        jobs="recordbranches,nmilog",
        append="ignore_loglevel",
        **machine,
    )
    boot.expect_status(STATUS_POWEROFF)
    rows = boot.lines("recordbranches")
    assert rows, boot.last_line()
    return boot, rows[0]


def driver(boot):
    """What Linux says of the records that it has found."""
    found = re.search(r"Performance Events: .*", boot.console)
    return found and found[0]


@pytest.mark.full
@pytest.mark.parametrize("kind", RECORDS, ids=[f"record_{kind}" for kind in RECORDS])
def test_record(lab, kind):
    """perf record -b has the same samples with the same records, address by address."""
    native, guest = (branches(lab, entry, RECORDS[kind], kind) for entry in ("native", "msr+nmi"))
    for boot, row in (native, guest):
        assert boot.job_status("recordbranches") == 0, f"{boot.name}: {row}"
        assert int(row["samples"]) == int(row["wanted"]), row
        assert int(row["full"]) >= int(row["samples"]) - 1, row
        assert f"{DEPTH}-deep LBR" in driver(boot), driver(boot)
    assert native[1] == guest[1], (native[1], guest[1])
    return (
        f"{guest[1]['samples']} samples, {guest[1]['records']} records, checksum "
        f"{guest[1]['sum']}; {driver(guest[0])}"
    )


@pytest.mark.full
def test_record_hidden(lab):
    """Without the control Linux finds no records, and perf says that there are none."""
    boot, row = branches(lab, "msr+nmi", HIDDEN, "hidden")
    assert boot.job_status("recordbranches") != 0 and row["status"] != "0", row
    assert "deep LBR" not in driver(boot), driver(boot)
    return driver(boot)
