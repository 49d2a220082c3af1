# SPDX-License-Identifier: BSD-2-Clause
# host.py: boots of the test kernel on the hypervisor's test build, with host NMIs.
from testbed.boots import image
from tests.e2e import kernel

# tests/kernel/host.h, enum host_region.
REGION_CLEAN = 1300
REGION_CLEAN_BLOCKED = 1400
VMCALL_STRIDE = NMI_STRIDE = 4  # tests/kernel/test_host_sweep.c
POSITIONS = 450
HOST_NMIS = 20  # programs/payload/returned.c
STOPPED = "---- stopped ----"

NO_LOST = "bookkeeping=skid,unblock,mask"
NO_SKID = "bookkeeping=lost,unblock,mask"
NO_UNBLOCK = "bookkeeping=lost,skid,mask"
NO_MASK = "bookkeeping=lost,skid,unblock"
KINDS = list(kernel.KINDS)


class Plan(kernel.Plan):
    """As kernel.Plan, with host NMIs."""

    def host(self, test, kind, positions=POSITIONS, late=0):
        reason = kernel.KINDS[kind][1]
        stride = VMCALL_STRIDE if kind == "vmcall" else 1
        first = self.next.get(reason, 0) + 600
        self.next[reason] = first + positions * stride
        if stride == 1:
            self.knobs.append(
                f"nmi_root reason={reason} exits={first}-{first + positions - 1} "
                "position=sweep host"
            )
        else:
            self.each(reason, first, stride, positions)
        self.words.append(f"{test}:{kind}:{first}:{positions}" + (f":{late}" if late else ""))
        return self

    def each(self, reason, first, stride, positions):
        for position in range(1, positions + 1):
            self.knobs.append(
                f"nmi_root reason={reason} "
                f"exits={first + (position - 1) * stride} position={position} host"
            )


def image_with_hooks(config=""):
    return image(config, "test")


def run(lab, name, plan, efi=None, **more):
    """As kernel.run(), on the test build."""
    return kernel.run(lab, name, plan, efi=efi or image_with_hooks(more.get("config", "")), **more)


def results(boot):
    """ok or not, by name, with nothing skipped."""
    found = {}
    for name, good, skipped, line in kernel.tap(boot):
        assert not skipped, line
        found[name] = good
    return found


def row(boot, job, name):
    rows = [r for r in boot.lines(job) if r["name"] == name or r["name"].startswith(name + ":")]
    assert len(rows) == 1, f"{len(rows)} rows of {name}; {kernel.notes(boot)}"
    return {key: int(value) for key, value in rows[0].items() if key != "name"} | {
        "name": rows[0]["name"]
    }


def path_length(boot, region, reason):
    spread = boot.region(region)["exits"][str(reason)]["root_instructions"]
    assert spread["samples"] > 0 and spread["min"] == spread["max"], f"region {region}: {spread}"
    return spread["min"]


def expect_sweep(boot, test, kind):
    """Every root-mode instruction of the exit had its host NMI, handled exactly once."""
    number, reason = kernel.KINDS[kind]
    base = REGION_CLEAN_BLOCKED if "blocked" in test else REGION_CLEAN
    sweep = row(boot, "sweep", f"{test}:{kind}")
    length = path_length(boot, base + number, reason)
    assert results(boot)[sweep["name"]], f"{sweep}; {kernel.notes(boot)}"
    assert sweep["wrong"] == 0 and sweep["delivered"] == length, f"{sweep}: the path has {length}"
    return f"{length} positions"


def sweeps(lab, kind="cpuid"):
    """All kinds in one boot, but VMCALLs, which every check makes as well."""
    plan = Plan()
    for test in ("host-sweep", "host-sweep-blocked"):
        for one in KINDS:
            if (one == "vmcall") == (kind == "vmcall"):
                plan.host(test, one)
    return run(lab, "host-vmcall" if kind == "vmcall" else "host-sweeps", plan)
