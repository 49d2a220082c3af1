# SPDX-License-Identifier: BSD-2-Clause
# test_deb.py: the Debian package. It is installed, upgraded and purged in a root of its own: this
# machine's /usr below an overlay, everything else new, and a grub-probe that knows one FAT volume.
# QEMU's PC without VMX then starts that volume: GRUB with the menu that update-grub has made.
import glob
import os
import re
import shutil
import tempfile

import pytest

from metal.tests.made_up import content, make, put
from metal.tests.test_secure import REFUSAL, expect_order
from testbed.boots import kernel
from testbed.machine import SCRATCH, Skip, made, path, tool
from tests.e2e import emulated_pc
from tests.e2e.distribution import LOGS, RELEASES, TREE, folder, inside, new_root
from tests.e2e.scripts import run

pytestmark = pytest.mark.more

OLD, NEW = "6.1.0-9-amd64", "6.1.0-10-amd64"
GRUB = "/usr/lib/grub/x86_64-efi"
# Of Debian's kernel: the made-up initramfs has no root file system.
KERNEL = "VFS: Unable to mount root fs"
FAT_ID = "1234-ABCD"  # mkfs.fat --invariant
PAGES = ((7, "pmuvisor"), (8, "pmuvisor-check"))
# grub-mkconfig asks it for devices and file systems: all is on one volume.
GRUB_PROBE = f"""case "$*" in
    *--target=device*) echo /dev/sda1 ;;
    *--target=partmap*) echo gpt ;;
    *--target=fs_uuid*) echo {FAT_ID} ;;
    *--target=fs*) echo fat ;;
esac
"""
DEFAULT_GRUB = b"""GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX="console=ttyS0"
GRUB_CMDLINE_LINUX_DEFAULT=quiet
GRUB_TERMINAL=console
"""
# $0: the root. Nothing of these mounts is seen outside, and they end with the shell.
ENTER = """set -e
mount -t tmpfs tmpfs "$0/over"
mkdir "$0/over/new" "$0/over/work"
mount -t overlay -o "lowerdir=/usr,upperdir=$0/over/new,workdir=$0/over/work" overlay "$0/usr"
mount -t tmpfs tmpfs "$0/boot/efi"
mount --rbind /dev "$0/dev"
mkdir "$0/boot/efi/EFI"
for name in grub-probe update-grub; do
    cp "$0/out/$name" "$0/usr/sbin/$name"
done
exec chroot "$0" /bin/bash -c "$1"
"""
# A stage leaves files in /out/STAGE.
LIFE = f"""set -eu
shopt -s nullglob
stage() {{
    mkdir -p "/out/$1"
    cp -r /boot/efi/EFI /boot/grub/grub.cfg "/out/$1/"
    (find /etc /boot /usr /var -not -path '/var/lib/dpkg/*' -printf '%p %y %m\\n' | sort
        find /etc /boot -type f -exec md5sum {{}} + | sort) > "/out/$1/files"
}}
install() {{ dpkg --force-depends --force-confdef --force-confold -i "$1"; }}
update-grub
stage before
install /out/first.deb
stage installed
sed -i -e 's/^PMUVISOR_OPTIONS=.*/PMUVISOR_OPTIONS="policy=msr wait=0"/' \
    -e 's/^PMUVISOR_IMAGE=.*/PMUVISOR_IMAGE=pmuvisor-lab.efi/' \
    -e 's/^PMUVISOR_CMDLINE=.*/PMUVISOR_CMDLINE="nmi_watchdog=0"/' /etc/default/pmuvisor
cp /etc/default/pmuvisor /out/edited
install /out/second.deb
cmp /etc/default/pmuvisor /out/edited
rm /etc/default/pmuvisor.dpkg-* || true
echo 'another initramfs' > /boot/initrd.img-{NEW}
/etc/initramfs/post-update.d/pmuvisor
stage upgraded
mkdir /out/kept
mv /boot/*-{OLD} /out/kept
update-grub
stage removed-kernel
mv /out/kept/* /boot
update-grub
stage added-kernel
echo 'an initramfs' > /boot/initrd.img-{NEW}
echo 'a log' > /boot/efi/EFI/pmuvisor/debian/pmuvisor.log
dpkg -r --force-depends pmuvisor
stage removed
update-grub
dpkg -P --force-depends pmuvisor
stage purged
! dpkg -s pmuvisor
"""


def build():
    """The package, as `make deb` leaves it."""
    for name in ("dh", "lintian"):
        if shutil.which(name) is None:
            raise Skip(f"{name} is missing; run: testbed/deps.sh deb")
    done = make("deb-parts")
    assert done.returncode == 0, done
    return path(done.stdout.splitlines()[-1])


def second_version(package, out):
    """The same with a higher version and another text in a file that the user may edit."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as work:
        tool(["dpkg-deb", "-R", package, work])
        for name, old, text in (
            ("DEBIAN/control", b"\nVersion: ", b"\nVersion: 1:"),
            ("etc/default/pmuvisor", b"# Settings", b"# New settings"),
        ):
            was = content(work, name)
            assert old in was
            put(work, name, was.replace(old, text))
        tool(["dpkg-deb", "-b", "--root-owner-group", work, out])


def fill_root(root):
    for (
        name
    ) in "etc/default etc/grub.d boot/efi boot/grub var/lib/dpkg/info out over usr dev tmp".split():
        os.makedirs(os.path.join(root, name))
    for name in ("bin", "sbin", "lib", "lib64"):
        os.symlink(f"usr/{name}", os.path.join(root, name))
    for name in ("00_header", "10_linux"):
        shutil.copy2(f"/etc/grub.d/{name}", os.path.join(root, "etc/grub.d"))
    for name, data in (
        ("etc/default/grub", DEFAULT_GRUB),
        ("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n"),
        ("var/lib/dpkg/status", b""),
        ("out/grub-probe", b"#!/bin/sh\n" + GRUB_PROBE.encode()),
        ("out/update-grub", b"#!/bin/sh\nexec grub-mkconfig -o /boot/grub/grub.cfg\n"),
        *((f"boot/initrd.img-{release}", b"an initramfs\n") for release in (OLD, NEW)),
    ):
        put(root, name, data, 0o755)
    for release in (OLD, NEW):
        shutil.copy(kernel(), os.path.join(root, "boot", f"vmlinuz-{release}"))


@pytest.fixture(name="package", scope="module")
def fixture_package():
    return build()


@pytest.fixture(name="life", scope="module")
def fixture_life(package):
    """The root after the package's life; its folder out has the stages."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-deb.", dir=SCRATCH) as root:
        os.chmod(root, 0o755)
        fill_root(root)
        shutil.copy(package, os.path.join(root, "out", "first.deb"))
        second_version(package, os.path.join(root, "out", "second.deb"))
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        done = run("unshare", "--mount", *user, "sh", "-c", ENTER, root, LIFE)
        assert done.returncode == 0, done.stdout + done.stderr
        yield root


def entries(life, stage):
    """{id: the entry's text} of PMUvisor."""
    menu = content(life, "out", stage, "grub.cfg").decode()
    found = re.findall(
        r"^menuentry [^\n]*'(pmuvisor[^']*)' {\n(.*?)^}", menu, re.MULTILINE | re.DOTALL
    )
    return dict(found)


def copies(life, stage):
    """What is in EFI/pmuvisor, and whether there is such a folder."""
    top = os.path.join(life, "out", stage, "EFI", "pmuvisor")
    return sorted(
        os.path.relpath(name, top)
        for name in glob.glob(f"{top}/**", recursive=True)
        if os.path.isfile(name)
    )


def copies_of(*releases):
    return sorted(
        ["debian/pmuvisor.efi"]
        + [f"debian/{name}/{file}" for name in releases for file in ("vmlinuz", "initrd.img")]
    )


def test_lintian(package):
    """No error, and no warning either."""
    done = run("lintian", "--allow-root", "--fail-on", "error,warning", package)
    assert done.returncode == 0, done.stdout


def test_contents(package):
    """The images and man pages are those of the tree."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as work:
        tool(["dpkg-deb", "-x", package, work])
        for name in ("pmuvisor.efi", "pmuvisor-lab.efi"):
            assert content(work, "usr/lib/pmuvisor", name) == content(made(f"build/{name}"))
        pages = [f"{work}/usr/share/man/man{n}/{name}.{n}.gz" for n, name in PAGES]
        for page in pages:
            done = run("man", "--warnings", "-l", page, MANWIDTH="80")
            assert done.returncode == 0 and not done.stderr, done
            assert "EXIT STATUS" in done.stdout
        option = re.compile(r"^ +(--[a-z]+)", re.MULTILINE)
        options, described = (
            option.findall(run(*command).stdout)
            for command in ((f"{work}/usr/sbin/pmuvisor-check", "--help"), ("man", "-l", pages[1]))
        )
        assert options and options == described


def test_entries(life):
    """One for each kernel, and never the first of the menu; what the entry starts is there."""
    found = entries(life, "installed")
    assert list(found) == ["pmuvisor", f"pmuvisor-{OLD}"]
    for release, text in zip((NEW, OLD), found.values()):
        assert f"chainloader /EFI/pmuvisor/debian/pmuvisor.efi kernel={release}/vmlinuz" in text
        assert f" initrd={release}/initrd.img " in text and FAT_ID in text, text
        assert re.search(r" append=root=\S+ ro console=ttyS0 quiet *\n", text), text
    assert copies(life, "installed") == copies_of(OLD, NEW)
    menu = content(life, "out/installed/grub.cfg").decode()
    assert 'set default="0"' in menu
    assert "pmuvisor" not in re.search(r"^menuentry .*", menu, re.MULTILINE)[0]


def test_upgrade(life):
    """The user's settings stay, and count; a new initramfs is copied."""
    for text in entries(life, "upgraded").values():
        assert re.search(r"policy=msr wait=0 append=.* quiet nmi_watchdog=0\n", text), text
    image, initrd = (
        content(life, "out/upgraded/EFI/pmuvisor/debian", name)
        for name in ("pmuvisor.efi", f"{NEW}/initrd.img")
    )
    assert image == content(made("build/pmuvisor-lab.efi"))
    assert initrd == b"another initramfs\n"


def test_kernels_come_and_go(life):
    assert list(entries(life, "removed-kernel")) == ["pmuvisor"]
    assert copies(life, "removed-kernel") == copies_of(NEW)
    assert list(entries(life, "added-kernel")) == ["pmuvisor", f"pmuvisor-{OLD}"]
    assert copies(life, "added-kernel") == copies_of(OLD, NEW)


def test_purge(life):
    """Removed, the package has nothing in the menu or on the partition; purged, nothing at all."""
    assert not entries(life, "removed") and "pmuvisor" not in os.listdir(f"{life}/out/removed/EFI")
    before, after = (
        content(life, "out", stage, "files").decode().splitlines() for stage in ("before", "purged")
    )
    assert len(before) > 1000
    assert sorted(set(before) ^ set(after)) == []


# ---- under GRUB ----

# What a stick's GRUB starts (testbed/loader.sh): the menu of this volume, with its own modules.
CONFIGFILE = b"set prefix=($root)/boot/grub\nconfigfile /boot/grub/grub.cfg\n"


def boot(lab, life, name, chosen=""):
    """All that is said by a machine with a volume that has /boot and EFI of the stage `upgraded`.
    chosen: an entry for the next start alone, as grub-reboot has it."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as work:
        tree, out = os.path.join(work, "tree"), os.path.join(work, "disk.img")
        shutil.copytree(os.path.join(life, "out/upgraded/EFI"), os.path.join(tree, "EFI"))
        put(tree, "EFI/pmuvisor/grub.cfg", CONFIGFILE)
        shutil.copytree(os.path.join(life, "boot"), os.path.join(work, "boot"))
        shutil.copy(os.path.join(life, "out/upgraded/grub.cfg"), os.path.join(work, "boot/grub"))
        shutil.copytree(GRUB, os.path.join(work, "boot/grub/x86_64-efi"))
        environment = os.path.join(work, "boot/grub/grubenv")
        tool(["grub-editenv", environment, "create"])
        if chosen:
            tool(["grub-editenv", environment, "set", f"next_entry={chosen}"])
        disk = path("testbed", "disk.sh")
        tool([disk, "--gpt", "--tree", tree, "--add", f"{work}/boot=/boot", "--out", out])
        drive = ["-drive", f"if=virtio,format=raw,file={out}"]
        machine = emulated_pc.command(*"-M q35 -cpu Skylake-Server -m 512 -vga std".split(), *drive)
        return emulated_pc.talk(machine, [KERNEL], os.path.join(lab.keep, f"deb-{name}.console"))


def test_default(lab, life):
    """GRUB starts Debian if nobody chooses."""
    said = boot(lab, life, "default")
    expect_order(said, f"Loading Linux {NEW}", KERNEL)
    assert "PMUvisor" not in said, said[-600:]


def test_chosen(lab, life):
    """PMUvisor starts with the options of its entry, finds the kernel and the initramfs, and says
    that VMX is missing. GRUB then starts Debian."""
    expect_order(
        boot(lab, life, "chosen", f"pmuvisor-{OLD}"),
        "Loading PMUvisor",
        "policy msr",
        f"kernel {OLD}/vmlinuz: ",
        f"initrd {OLD}/initrd.img: ",
        REFUSAL,
        f"Loading Linux {NEW}",
        KERNEL,
    )


# ---- in a Debian of its own ----

PREPARE = """set -e
export DEBIAN_FRONTEND=noninteractive
testbed/deps.sh build deb
make deb
lintian --allow-root --fail-on error build/deb/*.changes
cp build/deb/*.deb /life/first.deb
apt-get install -y --no-install-recommends grub-efi-amd64 initramfs-tools zstd \\
    linux-image-cloud-amd64
release=$(basename /lib/modules/*)
cd /life
apt-get download "linux-image-$release"
# Another kernel's package: the same with another release, and few modules.
dpkg-deb -R linux-image-*.deb kernel
rm -f linux-image-*.deb
rm -rf kernel/lib/modules/*/kernel/drivers kernel/usr/lib/modules/*/kernel/drivers
find kernel -depth -name "*$release*" | while read -r name; do
    mv "$name" "$(dirname "$name")/$(basename "$name" | sed "s/$release/$1/")"
done
sed -i "s/$release/$1/g" kernel/DEBIAN/*
dpkg-deb -Znone -b kernel other.deb
rm -rf kernel
cat > /etc/default/grub << 'END'
GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_CMDLINE_LINUX="console=ttyS0 init=/life/second panic=1"
GRUB_CMDLINE_LINUX_DEFAULT=quiet
GRUB_TERMINAL=console
END
mkdir -p /boot/efi /boot/grub
cp "/boot/vmlinuz-$release" /life/vmlinuz
cp "/boot/initrd.img-$release" /life/initrd.img
echo MODULES=list > /etc/initramfs-tools/conf.d/small
"""
# What both starts of the machine begin with. Each runs as PID 1, and says how it ended.
BEGIN = """#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive
exec > /dev/ttyS0 2>&1
trap 'echo "life: status $?"; sync; umount /boot/efi; mount -o remount,ro /
    echo o > /proc/sysrq-trigger; sleep 60' EXIT
set -ex
mountpoint -q /proc || mount -t proc proc /proc
mount -o remount,rw /
mount /dev/vda1 /boot/efi
copies=/boot/efi/EFI/pmuvisor/debian
files() {
    find / -xdev \\( -path /life -o -path /tmp -o -path /root -o -path /var/lib/dpkg \\
        -o -path /var/cache -o -path /var/log \\) -prune -o -print | sort
    find /boot/efi | sort
    find /etc /boot -type f ! -name grubenv -exec md5sum {} + | sort
}
entries() {
    sed -n "s/^menuentry.* --id '\\(pmuvisor[^']*\\)' {/\\1/p" /boot/grub/grub.cfg | paste -s -d ' '
}
is() { [ "$1" = "$2" ]; }
"""
FIRST = """
grub-install --target=x86_64-efi --removable --no-nvram --efi-directory=/boot/efi /dev/vda
update-grub
files > /life/before
dpkg -i /life/first.deb
is "$(entries)" pmuvisor
cmp $copies/*/vmlinuz /boot/vmlinuz-*
cmp $copies/*/initrd.img /boot/initrd.img-*
sed -i 's/^PMUVISOR_OPTIONS=.*/PMUVISOR_OPTIONS="policy=msr wait=0"/' /etc/default/pmuvisor
cp /etc/default/pmuvisor /life/edited
update-grub
grub-reboot pmuvisor
"""
SECOND = """
grep -q BOOT_IMAGE= /proc/cmdline
dpkg --force-confdef --force-confold -i /life/second.deb
cmp /etc/default/pmuvisor /life/edited
rm /etc/default/pmuvisor.dpkg-dist
grep -q 'chainloader .* policy=msr wait=0 append=root=UUID=' /boot/grub/grub.cfg
dpkg -i /life/other.deb
is "$(entries)" "pmuvisor pmuvisor-$(uname -r)"
cmp $copies/OTHER/vmlinuz /boot/vmlinuz-OTHER
rm $copies/OTHER/initrd.img
update-initramfs -u -k OTHER
cmp $copies/OTHER/initrd.img /boot/initrd.img-OTHER
dpkg -P linux-image-OTHER
is "$(entries)" pmuvisor
[ ! -e $copies/OTHER ]
dpkg -P pmuvisor
rm -rf /lib/modules/OTHER
files > /life/after
diff /life/before /life/after
"""
OTHER = "9.9-cloud-amd64"


@pytest.mark.full
@pytest.mark.parametrize("release", RELEASES, ids=[f"debian_{name}" for name in RELEASES])
def test_debian(lab, release):
    """Built, installed and started in QEMU in a new Debian. The first start has no boot loader, and
    installs GRUB and the package. In the second one GRUB starts PMUvisor, which refuses, and then
    Debian, where the package is upgraded, another kernel comes and goes, and the package is purged.
    """
    if os.geteuid() != 0:
        raise Skip("debootstrap and chroot want root")
    assert shutil.which("debootstrap"), "debootstrap is missing; run: testbed/deps.sh full"
    with folder(release) as work:
        root = os.path.join(work, "root")
        os.mkdir(root)
        with open(os.path.join(LOGS, f"{release}-deb.log"), "w", encoding="utf-8") as log:
            new_root(root, RELEASES[release], log)
            for name, text in (("first", FIRST), ("second", SECOND)):
                text = (BEGIN + text).replace("OTHER", OTHER)
                put(root, f"life/{name}", text.encode(), 0o755)
            status = inside(root, log, "sh", "-c", PREPARE, "sh", OTHER)
            assert status == 0, f"see {log.name}"
            second_version(f"{root}/life/first.deb", f"{root}/life/second.deb")
            shutil.rmtree(root + TREE)
            # No partition table is needed for GRUB to find it.
            disk, esp = os.path.join(work, "root.img"), os.path.join(work, "esp.img")
            tool(["truncate", "-s", "4G", disk])
            tool(["mke2fs", "-q", "-t", "ext4", "-d", root, disk])
            os.mkdir(os.path.join(work, "empty"))
            tool(
                [
                    path("testbed", "disk.sh"),
                    "--gpt",
                    "--volume",
                    "32",
                    "--out",
                    esp,
                    "--size",
                    "300",
                ]
            )
        kernel_of_it = [f"{root}/life/{name}" for name in ("vmlinuz", "initrd.img")]
        words = "root=/dev/vdb console=ttyS0 quiet panic=1 init=/life/first"
        for name, options, texts in (
            (
                "first",
                ["-kernel", kernel_of_it[0], "-initrd", kernel_of_it[1], "-append", words],
                (),
            ),
            (
                "second",
                [],
                ("Loading PMUvisor", "policy msr", "/vmlinuz: ", REFUSAL, "Loading Linux"),
            ),
        ):
            drives = [f"if=virtio,format=raw,file={file}" for file in (esp, disk)]
            machine = emulated_pc.command(
                *"-M q35 -cpu Skylake-Server -m 1024 -vga std".split(),
                *(word for drive in drives for word in ("-drive", drive)),
                *options,
            )
            keep = os.path.join(lab.keep, f"deb-{release}-{name}.console")
            expect_order(emulated_pc.talk(machine, [], keep), *texts, "life: status 0")
