# SPDX-License-Identifier: BSD-2-Clause
# test_secure.py: Secure Boot. QEMU's PC without VMX, with OVMF that has it turned on: what has no
# signature is rejected, what `make install` and `make usb` have signed comes to PMUvisor's own
# lines. Its keys are the "snakeoil" of Debian's package ovmf, which signs for tests alone; or
# Microsoft's, as a bought machine has them, and the stick's owner enrols a new one at its first
# start.
import functools
import os
import shutil
import tempfile

import pytest

from metal.tests.made_up import (
    complaints,
    content,
    make,
    new_esp,
    path_with,
    path_without,
    put,
    put_parts,
)
from testbed.boots import image as image_of
from testbed.boots import kernel
from testbed.machine import SCRATCH, Skip, made, path, tool
from tests.e2e import emulated_pc
from tests.e2e.scripts import expect_line, run

pytestmark = pytest.mark.more

KEYS = "/usr/share/ovmf/PkKek-1-snakeoil"
PASSPHRASE = "snakeoil"
VARIABLES = "/usr/share/OVMF/OVMF_VARS_4M.{}.fd"  # with keys in them: snakeoil's, Microsoft's (ms)
FIRST = "policymsr+nmi"  # PMUvisor's first line has its name, its version and this
REFUSAL = "PMUvisor refuses to start: this processor shows no VMX"
DOWN, ENTER = b"\x1b[B", b"\r"
SIGN, SHIM, INSTALL, USB = (
    path("metal", f"{name}.sh") for name in ("sign", "shim", "install", "usb")
)


def need_tools():
    for name in ("sbsign", "openssl"):
        if shutil.which(name) is None:
            raise Skip(f"{name} is missing; run: testbed/deps.sh check")


@functools.lru_cache(None)
def need_shim():
    """What usb.sh says of fetching it is no part of what a test waits for."""
    tool([SHIM])


def snakeoil(work):
    """(key, certificate), without the passphrase: nobody is there to type it."""
    need_tools()
    key = os.path.join(work, "key")
    tool(["openssl", "rsa", "-passin", f"pass:{PASSPHRASE}", "-in", f"{KEYS}.key", "-out", key])
    return key, f"{KEYS}.pem"


def new_key(work, name="new"):
    """The same, a new one, as docs/metal.md has one made."""
    need_tools()
    key, certificate = (os.path.join(work, f"{name}.{end}") for end in ("key", "pem"))
    words = "req -x509 -newkey rsa:2048 -sha256 -nodes -days 3650 -subj /CN=PMUvisor/".split()
    tool(["openssl", *words, "-keyout", key, "-out", certificate])
    return key, certificate


def to_der(work, certificate):
    der = os.path.join(work, "der")
    tool(["openssl", "x509", "-in", certificate, "-outform", "DER", "-out", der])
    return der


def parts(work):
    """The measurements' files; the kernel is one that starts."""
    folder = put_parts(os.path.join(work, "parts"))
    for name in ("vmlinuz", "kernel.bzImage"):
        shutil.copy(made("build/kernel.bzImage"), os.path.join(folder, name))
    # A part's, which is signed like the other image.
    shutil.copy(made(image_of()), os.path.join(folder, "no_bookkeeping.efi"))
    return folder


def stick(work, name, *options):
    """A stick's image, by usb.sh with these options. Its menu tries an image without a signature
    first, and resets the machine after a refusal: that ends QEMU."""
    tree, out = os.path.join(work, name), os.path.join(work, f"{name}.img")
    tool([USB, *options, "--bench", parts(work), "--tree", tree, "--out", out, made(image_of())])
    folder = os.path.join(tree, "EFI", "pmuvisor")
    shutil.copy(made(image_of()), os.path.join(folder, "unsigned.efi"))
    put(
        folder,
        "local.cfg",
        content(folder, "local.cfg") + b"set timeout=0\n"
        b"set pmv_args=wait=0\nchainloader /EFI/pmuvisor/unsigned.efi\n"
        b"set fallback=0\nmenuentry 'reset the machine' --id failed { reboot }\n",
    )
    tool([path("testbed", "disk.sh"), "--gpt", "--tree", tree, "--out", out])
    return out


def disk(work, name, efi):
    """A disk that has this image in the place of a boot loader, and what it reads."""
    tree, out = os.path.join(work, name), os.path.join(work, f"{name}.img")
    for folder in ("BOOT", "pmuvisor"):
        os.makedirs(os.path.join(tree, "EFI", folder))
    shutil.copy(efi, os.path.join(tree, "EFI", "BOOT", "BOOTX64.EFI"))
    put(
        os.path.join(tree, "EFI", "BOOT"),
        "pmuvisor.cfg",
        b"wait=0\nkernel=/EFI/pmuvisor/vmlinuz\ninitrd=/EFI/pmuvisor/initrd.img\n",
    )
    for file in ("vmlinuz", "initrd.img"):
        shutil.copy(os.path.join(parts(work), file), os.path.join(tree, "EFI", "pmuvisor"))
    tool([path("testbed", "disk.sh"), "--tree", tree, "--out", out])
    return out


def start(lab, name, work, disks, answers=()):
    """All that is said by a machine with these disks, which firmware tries in this order."""
    drives = []
    for number, image in enumerate(disks):
        drives += [
            "-drive",
            f"if=none,id=disk{number},format=raw,file={image}",
            "-device",
            f"virtio-blk-pci,drive=disk{number},bootindex={number + 1}",
        ]
    machine = emulated_pc.command(
        *"-cpu Skylake-Server -m 512 -nodefaults -vga std".split(),
        *drives,
        firmware=emulated_pc.secure_firmware(os.path.join(work, "variables")),
    )
    return emulated_pc.talk(machine, [], os.path.join(lab.keep, f"secure-{name}.console"), answers)


def squeeze(text):
    return "".join(text.split())


def variables(work, owner):
    shutil.copy(VARIABLES.format(owner), os.path.join(work, "variables"))


# ---- firmware that knows the key ----

NAMES = ("unsigned-stick", "unsigned-image", "signed-image", "signed-stick")


def known_key(lab):
    """What is said while firmware tries each of NAMES, one after the other: one machine."""

    def boot():
        with tempfile.TemporaryDirectory(prefix="pmuvisor-secure.", dir=SCRATCH) as work:
            key, certificate = snakeoil(work)
            signed = os.path.join(work, "signed.efi")
            tool([SIGN, key, certificate, made(image_of()), signed])
            variables(work, "snakeoil")
            said = start(
                lab,
                "known",
                work,
                [
                    stick(work, NAMES[0]),
                    disk(work, NAMES[1], made(image_of())),
                    disk(work, NAMES[2], signed),
                    stick(work, NAMES[3], "--key", key, "--cert", certificate),
                ],
            )
        pieces = said.split("BdsDxe:loadingBoot000")[1:]
        assert [piece[0] for piece in pieces] == ["1", "2", "3", "4"], said[-600:]
        return dict(zip(NAMES, pieces))

    return lab.once("secure-known", boot)


def expect_start(said):
    """PMUvisor's own first line, and then why it does not go on."""
    assert said.find(FIRST) in range(said.find(squeeze(REFUSAL))), said[-600:]
    assert said.count(squeeze(REFUSAL)) == 1, said[-600:]


def expect_order(said, *texts):
    at = 0
    for text in texts:
        found = said.find(squeeze(text), at)
        assert found >= 0, f"no '{text}' after the one before: {said[at:at + 600]}"
        at = found


@pytest.mark.parametrize("name", NAMES[:2])
def test_unsigned_is_rejected(lab, name):
    """Firmware starts neither a stick nor an image without a signature, says so, and goes on."""
    said = known_key(lab)[name]
    assert "AccessDenied" in said and "BdsDxe:starting" not in said, said
    assert FIRST not in said, said


def test_signed_image_starts(lab):
    """Firmware starts the image itself, where it knows the key, and goes on after the refusal."""
    said = known_key(lab)["signed-image"]
    assert "BdsDxe:starting" in said and "AccessDenied" not in said, said
    expect_start(said)


def test_signed_stick_starts(lab):
    """shim starts the stick's GRUB, and that PMUvisor, but not an image without a signature."""
    said = known_key(lab)["signed-stick"]
    expect_start(said)
    expect_order(said, "BdsDxe: starting", "error: bad shim signature", FIRST)


# ---- a bought machine, and a new key ----

# On the stick, what MokManager lists before the certificate, besides "../".
BEFORE = (
    "bench/",
    "columns.cfg",
    "grub.cfg",
    "initrd.img",
    "local.cfg",
    "no_bookkeeping.efi",
    "pmuvisor-check",
)


def choose_certificate(listed):
    """Keys, from the list's first line."""
    listed = listed[listed.index("../") : listed.index("pmuvisor.cer")]
    return DOWN * (1 + sum(name in listed for name in BEFORE)) + ENTER


def enrolled(lab):
    """What is said by such a machine in its first start and in the next one."""

    def boot():
        with tempfile.TemporaryDirectory(prefix="pmuvisor-secure.", dir=SCRATCH) as work:
            key, certificate = new_key(work)
            image = stick(work, "stick", "--key", key, "--cert", certificate)
            variables(work, "ms")
            return [
                start(
                    lab,
                    "enrols",
                    work,
                    [image],
                    [
                        ("Verification failed: (0x1A) Security Violation", ENTER),
                        ("Press any key to perform MOK management", ENTER),
                        ("Enroll key from disk", DOWN + ENTER),
                        ("PMUVISOR", ENTER),
                        ("EFI/", ENTER),
                        ("pmuvisor/", DOWN * 2 + ENTER),
                        ("pmuvisor.cer", choose_certificate),
                        ("Continue", DOWN + ENTER),
                        ("Yes", DOWN + ENTER),
                        ("Reboot", ENTER),
                    ],
                ),
                start(lab, "enrolled", work, [image]),
            ]

    return lab.once("secure-enrolled", boot)


def test_enrols(lab):
    """Firmware with Microsoft's keys starts Debian's shim. It does not know who signed GRUB and
    asks; with the certificate on the stick enrolled, the next start comes to PMUvisor."""
    first, second = enrolled(lab)
    assert FIRST not in first, first[-600:]
    expect_start(second)
    expect_order(second, "BdsDxe: starting", "error: bad shim signature", FIRST)


# ---- without a machine ----


def test_install_signs(tmp_path):
    """The image, and nothing else of it is changed; the certificate for those who enrol it lies
    beside it. Installed again nothing is signed anew, so its results stay; without a key nothing
    takes its place unless somebody says so."""
    work, image = str(tmp_path), made(image_of())
    esp, folder = new_esp(work)
    key, certificate = new_key(work)
    signed = ("--key", key, "--cert", certificate)
    files = ("--bench", parts(work), esp, image, kernel(), kernel())
    done = run(INSTALL, *signed, *files)
    assert done.returncode == 0 and "mokutil --import" in done.stdout, done
    efi = os.path.join(folder, "pmuvisor.efi")
    tool(["sbverify", "--cert", certificate, efi])
    bare = put(work, "bare.efi", content(efi))
    tool(["sbattach", "--remove", bare])
    assert content(bare) == content(image), "more than a signature was added"
    assert content(folder, "pmuvisor.cer") == content(to_der(work, certificate))
    # Again.
    was = content(efi)
    put(folder, "bench/native.txt", b"results\n")
    done = run(INSTALL, *signed, *files, PATH=path_with(work, "sbsign", b"exit 1\n"))
    assert done.returncode == 0, done.stderr
    assert content(efi) == was and content(folder, "bench/native.txt"), "its results are put aside"
    # Without a key.
    expect_line(run(INSTALL, *files), folder, "SIGN_KEY=", "remove pmuvisor.cer")
    assert content(efi) == was
    os.remove(os.path.join(folder, "pmuvisor.cer"))
    done = run(INSTALL, *files)
    assert done.returncode == 0 and content(efi) == content(image), done.stderr
    assert "pmuvisor.cer" not in os.listdir(folder)


# Name: the key, the certificate, what the line has. The files are made by refused().
REFUSED = {
    "key-alone": ("key", "", ["found a key", "no certificate", "SIGN_KEY=FILE SIGN_CERT=FILE"]),
    "certificate-alone": ("", "pem", ["no key", "SIGN_KEY=FILE SIGN_CERT=FILE"]),
    "no-key": ("absent", "pem", ["SIGN_KEY: cannot read", "absent", "docs/metal.md"]),
    "no-certificate": ("key", "absent", ["SIGN_CERT: cannot read", "absent", "docs/metal.md"]),
    "key-is-none": ("pem", "pem", ["SIGN_KEY", "no private key in PEM"]),
    "certificate-is-none": ("key", "der", ["SIGN_CERT", "no certificate in PEM", "openssl x509"]),
    "damaged-key": ("damaged", "pem", ["did not sign", "Can't load key", "wanted an RSA key"]),
    "damaged-certificate": ("key", "torn", ["did not sign", "Can't load cert", "wanted an RSA"]),
    "other-key": ("other.key", "pem", ["did not sign", "its own certificate"]),
    "passphrase": ("locked", "pem", ["did not sign", "Can't load key"]),
    "no-sbsign": ("key", "pem", ["sbsign is missing", "testbed/deps.sh sign"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path, name):
    """One line, and nothing is installed or replaced."""
    key, certificate, fragments = REFUSED[name]
    need_shim()
    work = str(tmp_path)
    new_key(work, "other")
    os.rename(new_key(work, "new")[0], os.path.join(work, "key"))
    os.rename(os.path.join(work, "new.pem"), os.path.join(work, "pem"))
    for damaged, what in (("damaged", "PRIVATE KEY"), ("torn", "CERTIFICATE")):
        put(work, damaged, f"-----BEGIN {what}-----\nAAAA\n-----END {what}-----\n".encode())
    to_der(work, os.path.join(work, "pem"))
    shutil.copy(f"{KEYS}.key", os.path.join(work, "locked"))
    sign = []
    for option, file in (("--key", key), ("--cert", certificate)):
        sign += [option, os.path.join(work, file)] if file else []
    esp, _ = new_esp(work)
    tree, out = os.path.join(work, "tree"), os.path.join(work, "out")
    put(tree, "EFI/pmuvisor/mine", b"mine")
    environment = {"PATH": path_without(work, "sbsign")} if name == "no-sbsign" else {}
    # Nobody is there to type a passphrase: no terminal either.
    for command in (
        [INSTALL, *sign, esp, made(image_of()), kernel(), kernel()],
        [USB, *sign, "--bench", parts(work), "--tree", tree, "--out", out, made(image_of())],
    ):
        expect_line(run("setsid", "--wait", *command, **environment), *fragments)
    assert os.listdir(os.path.join(esp, "EFI")) == [], "something was installed"
    assert content(tree, "EFI/pmuvisor/mine") == b"mine" and not os.path.exists(out)


@pytest.mark.parametrize("goal", ["install", "usb"])
def test_make(goal, tmp_path):
    """make gives key and certificate to the script, and says at its start what is wrong with
    them."""
    words = (goal, f"ESP={tmp_path}")
    os.mkdir(tmp_path / "EFI")
    done = make("-n", "SIGN_KEY=/a/key", "SIGN_CERT=/a/pem", *words)
    assert '--key "/a/key" --cert "/a/pem"' in done.stdout, done
    assert "testbed/deps.sh build" in done.stdout and " sign\n" in done.stdout, done.stdout
    assert "--key" not in make("-n", *words).stdout, "a key that nobody named"
    done = make("SIGN_KEY=/absent/key", "SIGN_CERT=/absent/pem", *words)
    lines = complaints(done)
    assert len(lines) == 1 and "SIGN_KEY: cannot read '/absent/key'" in lines[0], done
    assert done.stdout == "", done.stdout
