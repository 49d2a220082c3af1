# SPDX-License-Identifier: BSD-2-Clause
# test_guard.py: the guard of the boot menu on Linux's side, and what metal/collect.py makes of what
# starts left. No boot is made: tests/e2e/test_crash.py has what the menu does.
import hashlib
import os
import shutil

import pytest

from bench import results
from metal.tests.made_up import COLLECT, content, new_esp, path_with, put
from testbed.machine import path
from tests.e2e.scripts import expect_line, run

LOG = "pmuvisor.log"
GUARD = path("metal", "guard.sh")
LEAF = 0x40000000  # the first of a hypervisor's, where the driver cpuid is read


def system(work):
    """(an EFI system partition with PMUvisor, its folder there, a system's root folder)."""
    (esp, folder), root = new_esp(work), os.path.join(work, "root")
    for name in ("proc", "dev/cpu/0", "etc/systemd/system"):
        os.makedirs(os.path.join(root, name))
    os.mkdir(folder)
    return esp, folder, root


def test_up(tmp_path):
    """guard.sh: the guard in GRUB's own eyes. Only a guest says that it is up, and only once the
    menu has started it."""
    esp, folder, root = system(tmp_path)
    grubenv = os.path.join(folder, "grubenv")
    program = os.path.join(root, "usr", "local", "sbin", "pmuvisor-up")

    def up(*arguments, script=GUARD):
        done = run(script, *arguments, esp, GUARD_ROOT=root)
        assert done.returncode == 0 and not done.stderr, done
        return run("grub-editenv", grubenv, "list").stdout

    assert up("--install") == "guard=\n"
    unit = "etc/systemd/system/multi-user.target.wants/pmuvisor-up.service"
    assert f"ExecStart=/usr/local/sbin/pmuvisor-up {esp}\n" in content(root, unit).decode()
    assert os.path.getsize(grubenv) == 1024, "not the size that GRUB wants"
    # As natively, under another hypervisor, and under PMUvisor, whether the bit is set or not.
    for signature, guard, after in (
        (b"\x08\0\0\0" * 3, "trying", "trying"),
        (b"KVMKVMKVM\0\0\0", "trying", "trying"),
        (b"PMUvisorPMUv", "", ""),
        (b"PMUvisorPMUv", "failed", "failed"),
        (b"PMUvisorPMUv", "trying", "up"),
    ):
        with open(os.path.join(root, "dev", "cpu", "0", "cpuid"), "wb") as device:
            device.seek(LEAF)
            device.write(b"\1\0\0\x40" + signature)
        run("grub-editenv", grubenv, "set", f"guard={guard}")
        assert up(script=program) == f"guard={after}\n", (signature, guard)
    assert up("--again") == "guard=\n"
    assert run(GUARD, "--remove", esp, GUARD_ROOT=root).returncode == 0
    left = [name for _, _, names in os.walk(tmp_path) for name in names]
    assert left == ["cpuid"], left
    expect_line(run(GUARD, "--install", tmp_path), f"{tmp_path}/EFI/pmuvisor", "make install")
    expect_line(run(GUARD, "--often", esp), "--often", "wanted --again")
    expect_line(run(GUARD), "no ESP", "/boot/efi")


# What a system has before guard.sh --server, besides PMUvisor's own files.
GRUB_CFG = b'if [ "${next_entry}" ] ; then\nsource ${config_directory}/custom.cfg\nfi\n'
OPTIONS = b"policy=msr\nappend=quiet\nappend=root=/dev/sda1 quiet\n"


def files_of(folder):
    return {
        os.path.relpath(os.path.join(where, name), folder): content(where, name)
        for where, _, names in os.walk(folder)
        for name in names
    }


def parts_between(text):
    """A file's own lines, and those that guard.sh added."""
    own, _, rest = text.partition("# From here on by PMUvisor's guard.sh --server.\n")
    added, _, more = rest.partition("# Up to here by PMUvisor's guard.sh --server.\n")
    return own + more, added


@pytest.mark.parametrize("bench", [b"", b"set bench=thesis\n"], ids=["menu", "measures"])
def test_server(tmp_path, bench):
    """guard.sh --server: a reset after a fault or a panic, and GRUB's own entry, or without one the
    measurements; said a second time it changes nothing, and --remove leaves what was there."""
    esp, folder, root = system(tmp_path)
    put(folder, "pmuvisor.cfg", OPTIONS)
    put(folder, "local.cfg", b"set append='quiet'\n" + bench)
    put(root, "boot/grub/custom.cfg", b"# mine\n")
    expect_line(run(GUARD, "--server", esp, GUARD_ROOT=root), "boot/grub/grub.cfg", "update-grub")
    put(root, "boot/grub/grub.cfg", GRUB_CFG)
    put(root, "sys/class/watchdog/watchdog0/identity", b"Software Watchdog\n")
    grubenv = os.path.join(root, "boot", "grub", "grubenv")
    run("grub-editenv", grubenv, "create")
    before = files_of(tmp_path)
    wanted = "each start measures: restart" if bench else "no entry 'pmuvisor'"
    expect_line(run(GUARD, "--once", esp, GUARD_ROOT=root), wanted, "guard.sh --server")

    def server():
        done = run(GUARD, "--server", esp, GUARD_ROOT=root)
        assert done.returncode == 0 and not done.stderr, done
        return done.stdout, files_of(tmp_path)

    (said, after), (_, again) = server(), server()
    assert again == after, "a second time adds more"
    assert "none in hardware" in said, said
    changed = [name for name in after if after[name] != before.get(name)]
    assert all(name in said for name in changed if ".wants/" not in name), (changed, said)
    own, added = parts_between(content(folder, "pmuvisor.cfg").decode())
    assert own == OPTIONS.decode().replace("quiet\n", "quiet panic=10\n"), own
    assert added.startswith("fault=reset\n"), added
    _, added = parts_between(content(folder, "local.cfg").decode())
    assert added.startswith('set append="$append panic=10"\n') and bool(bench) == (
        "menuentry" not in added
    ), added
    own, added = parts_between(content(root, "boot/grub/custom.cfg").decode())
    assert own == "# mine\n" and bool(bench) == ("menuentry" not in added), added
    assert run("grub-script-check", os.path.join(root, "boot/grub/custom.cfg")).returncode == 0
    assert b"RuntimeWatchdogSec=" in content(root, "etc/systemd/system.conf.d/pmuvisor.conf")
    put(root, "sys/class/watchdog/watchdog0/identity", b"iTCO_wdt\n")
    assert "Watchdog: iTCO_wdt\n" in server()[0]
    put(root, "sys/class/watchdog/watchdog0/identity", b"Software Watchdog\n")
    run("grub-editenv", grubenv, "set", "next_entry=pmuvisor")
    assert run(GUARD, "--remove", esp, GUARD_ROOT=root).returncode == 0
    assert files_of(tmp_path) == before
    # The user's own word.
    put(folder, "pmuvisor.cfg", b"append=quiet panic=10")
    server()
    assert content(folder, "pmuvisor.cfg").startswith(b"append=quiet panic=10\n#")
    assert run(GUARD, "--remove", esp, GUARD_ROOT=root).returncode == 0
    assert content(folder, "pmuvisor.cfg") == b"append=quiet panic=10\n"


def test_collect_by_ssh(tmp_path):
    """make collect takes results and log, and no image, from a partition on another machine; if it
    cannot, one line says why."""
    esp, folder, _ = system(tmp_path)
    put(folder, LOG, b"the last words\n")
    put(folder, "vmlinuz", b"large")
    put(folder, "bench/initrd.img", b"large")
    out, host = str(tmp_path / "out"), f"root@there:{esp}"
    # In the place of ssh the command itself, on the same machine.
    script = f'[ "$1" = root@there ] || exit 9\ncd /; sh -c "$2" | tee {tmp_path}/sent\n'.encode()
    tools = path_with(tmp_path, "ssh", script)
    done = run(*COLLECT, host, out, PATH=tools)
    assert done.returncode == 0 and not done.stderr and LOG in done.stdout, done
    assert content(out, LOG) == b"the last words\n"
    sent = run("tar", "-tf", tmp_path / "sent").stdout.split()
    assert [name for name in sent if not name.endswith("/")] == [f"EFI/pmuvisor/{LOG}"], sent
    done = run(*COLLECT, f"{host}/absent", out, PATH=tools)
    expect_line(done, f"'{host}/absent' cannot be read by ssh", "No such file")
    silent = path_with(tmp_path / "other", "ssh", b"echo No route to host >&2; exit 255\n")
    expect_line(run(*COLLECT, host, out, PATH=silent), "No route to host")


def test_collect(tmp_path):
    """make collect takes the log along, whether anything was measured or not."""
    esp, folder, _ = system(tmp_path)
    out = str(tmp_path / "out")
    expect_line(run(*COLLECT, esp, out), "bench", "is not there")
    put(folder, LOG, b"the last words\n")
    done = run(*COLLECT, esp, out)
    assert done.returncode == 0 and not done.stderr and LOG in done.stdout, done
    assert content(out, LOG) == b"the last words\n"


def test_collect_a_part(tmp_path):
    """Whole columns, the whole jobs of others, parts of a column, and why a column has nothing."""
    esp, folder, _ = system(tmp_path)
    out = str(tmp_path / "out")

    def keep(name, text, torn=b""):
        data = text.encode()
        put(folder, f"bench/{name}", torn + b"%scheck: md5=%s" % (data, md5(data)))

    def md5(data):
        return hashlib.md5(data).hexdigest().encode()

    def line(experiment, item):
        times = "metric=time unit=tsc n=30 min=20 median=25 p95=30"
        return f"bench: experiment={experiment} item={item} {times}\n"

    for name in ("native", "msr+nmi", "kvm"):
        keep(f"1.{name}/facts.txt", f'env: kind="metal"\nenv: column="{name}"\n')
        keep(f"1.{name}/msr.txt", line("msr", "rdpmc"))
        keep(f"1.{name}/exit.txt", line("exit", "cpuid"), torn=b"b0nch" if name == "kvm" else b"")
    whole = f'env: kind="metal"\n{line("msr", "rdpmc")}end: column=msr+nmi status=0\n'
    keep("1.msr+nmi.txt", whole)
    keep("1.abl_none.txt", f'{line("ablation", "cpuid@none")}end: column=msr+nmi status=0\n')
    keep("plan.cfg", 'set bench_plan="1.native 1.msr 1.abl_none 1.abl_compiled_out"\n')
    put(folder, "bench/1.abl_compiled_out.env")
    put(folder, "bench/1.intercept.env", b"# GRUB Environment Block\ntries=1\nwhy=refused\n")
    done = run(*COLLECT, esp, out)
    assert done.returncode == 0 and done.stderr.count("\n") == 2, done
    assert "not all jobs are done yet of: 1.native 1.kvm\n" in done.stderr, done.stderr
    assert "parts or their columns: 1.abl_compiled_out\n" in done.stderr, done.stderr
    assert "column intercept: not run: it refused" in done.stdout, done.stdout
    assert "column msr: not run: no results yet\n" in done.stdout, done.stdout
    assert "column kvm-new: not run: the plan leaves it out\n" in done.stdout, done.stdout
    found = results.load(os.path.join(out, "results.json"))
    assert [(one["column"], one["item"]) for one in found["measurements"]] == [
        ("native", "rdpmc"),
        ("native", "cpuid"),
        ("kvm", "rdpmc"),
        ("msr+nmi", "rdpmc"),
        ("msr+nmi", "cpuid@none"),
    ]
    assert ("kvm", "exit") in [(one["column"], one["experiment"]) for one in found["skipped"]]
    assert b"Table 4.1" in content(out, "report.html")
    shutil.rmtree(os.path.join(folder, "bench"))
    os.mkdir(os.path.join(folder, "bench"))
    expect_line(run(*COLLECT, esp, out), "no column in", "results yet")
    assert sorted(os.listdir(out)) == ["report.html", "results.json"], "what was there is gone"
