# SPDX-License-Identifier: BSD-2-Clause
# test_host_linux.py: the hypervisor's NMIs that Debian's kernel takes, on the hypervisor's test
# build: with the module of programs/module/ they are handed back at once, without it they are found
# after the next exit and the kernel complains. Thesis, section 3.2.
from testbed.machine import STATUS_POWEROFF
from tests.e2e.host import HOST_NMIS, image_with_hooks

UNKNOWN = "NMI received for unknown reason"


def boot(lab, name, jobs, config=""):
    """The kernel's complaints go to its log alone, so that the guest's lines stay whole."""
    return lab.emulator(
        f"host-linux-{name}",
        tools=True,
        jobs=jobs,
        efi=image_with_hooks(),
        append="loglevel=0",
        config=f"console=none user_hypercalls=1 {config}",
    )


def returned(made):
    """The job's row: Linux took every NMI, none came while the hypervisor ran."""
    made.expect_status(STATUS_POWEROFF)
    rows = made.lines("returned")
    assert made.job_status("returned") == 0 and len(rows) == 1, rows
    row = {key: int(value) for key, value in rows[0].items()}
    assert row["sent"] == row["nmis"] == HOST_NMIS and row["in_root"] == 0, row
    return row


def unknown(made):
    return sum(
        line.startswith("nmilog: ") and UNKNOWN in line for line in made.console.splitlines()
    )


def test_handed_back(lab):
    """With the module every host NMI is handed back once, and the kernel does not complain."""
    made = boot(lab, "module", "module,returned,module,nmilog")
    row = returned(made)
    first, last = made.lines("module")
    assert (
        first["handed_back"] == "0"
        and int(last["handed_back"]) == HOST_NMIS
        and last["not_ours"] == "0"
    ), (first, last)
    assert row["recovered"] + row["returned"] == HOST_NMIS, row
    assert made.lines("nmilog")[-1]["lines"] == "0" and UNKNOWN not in made.console, made.lines(
        "nmilog"
    )
    return f"{last['handed_back']} handed back, the hypervisor's own count {row}"


def test_found_later(lab):
    """Without the module each is found once, after the next exit; the kernel calls it unknown."""
    made = boot(lab, "alone", "returned,nmilog")
    row = returned(made)
    assert row["recovered"] == HOST_NMIS and row["returned"] == 0, row
    lines = unknown(made)
    assert 1 <= lines <= HOST_NMIS, f"{lines} complaints, wanted 1 to {HOST_NMIS}"
    return f"{row['recovered']} found later; {lines} complaints"


def test_lost(lab):
    """Without the module and without that step of the bookkeeping, they are never found."""
    row = returned(boot(lab, "lost", "returned,nmilog", "bookkeeping=skid,unblock,mask"))
    assert row["recovered"] == row["returned"] == 0, row
    return f"{HOST_NMIS} lost"
