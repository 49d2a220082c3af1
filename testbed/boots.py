# SPDX-License-Identifier: BSD-2-Clause
# boots.py: a boot as a value: what goes in, said once, and what came out. What goes in makes its
# key (store.py): the contents of every file on the disk, the words and options, the machine, and
# the emulator with the scripts that make a disk and start it.
import contextlib
import dataclasses
import functools
import json
import os
import re
import tempfile

from testbed import gpt, initramfs, machine, servers
from testbed.machine import SCRATCH, path, tool
from testbed.store import digest, digest_any, digest_below, digest_of

# What a disk and its run are made with, besides the boot's own files.
BED = [
    "boots.py",
    "initramfs.py",
    "disk.sh",
    "loader.sh",
    "grub.cfg",
    "gpt.py",
    "run.sh",
    "fork_client.py",
]
TOOLS = ["grub-mkimage", "mkfs.fat", "mcopy", "mmd", "iasl", "cpio"]
VGA = "/usr/share/seabios/vgabios-stdvga.bin"
FIRMWARE = "/usr/share/ovmf/OVMF.fd"
GRUB = "/usr/lib/grub/x86_64-efi"
# A boot's disk, in sectors: a volume with GRUB alone, then the boot's own, up to the end. Firmware
# looks at the first sectors of that one and at its last without opening it, and at the mark in its
# first FAT; so all runs are the same until GRUB looks for its menu, and have a server to go on
# from. Beyond 28 bits firmware reads 32 MiB at once, not 128 KiB, and waits 10 ms before each time.
SECTOR = 512
GRUB_FIRST, GRUB_MIB = 2048, 20
OWN_FIRST = GRUB_FIRST + (GRUB_MIB << 11)
OWN_RESERVED = 1024
OWN_PEEK = 1
CYLINDER = 16 * 63
DISK_SECTORS = ((1 << 28) // CYLINDER + 1) * CYLINDER
PARTITION_ESP, PARTITION_FAT = 0xEF, 0x0C
TEST_KERNEL = path("build", "kernel.bzImage")


class Boot:
    """What one boot left behind: `status`, `console`, `ledger` (None: none was written), `errors`,
    `files` (of EFI/pmuvisor on the disk, as the boot was asked to read them: bytes, or None where
    there is no such file)."""

    def __init__(self, name, folder, about):
        self.name = name
        self.folder = folder
        self.status = about["status"]
        self.seconds = about.get("seconds", 0.0)  # of the run that made it
        self.raw = self.read("console")
        text = self.raw.decode("utf-8", "replace")
        self.console = re.sub(r"\x1b\[[0-9;=?]*[A-Za-z]", "", text).replace("\r", "")
        self.errors = self.read("errors").decode("utf-8", "replace")
        ledger = self.read("ledger")
        self.ledger = json.loads(ledger) if ledger else None  # empty: the emulator itself crashed
        self.files = {file: self.read(os.path.join("read", file)) for file in about.get("read", ())}

    def read(self, name):
        """The bytes of a file of the boot's; None: there is none."""
        try:
            with open(os.path.join(self.folder, name), "rb") as source:
                return source.read()
        except FileNotFoundError:
            return None

    def path(self, name):
        """Of a file that a knob or the guest wrote; there may be none."""
        return os.path.join(self.folder, "files", name)

    def lines(self, job):
        """The lines 'job: key=value ...' of the guest's console, as dictionaries."""
        found = []
        for line in self.console.splitlines():
            if line.startswith(f"{job}: "):
                pairs = re.findall(r"(\w+)=(\"[^\"]*\"|\S+)", line[len(job) + 2 :])
                found.append({key: value.strip('"') for key, value in pairs})
        return found

    def job_status(self, job):
        for line in self.lines("job"):
            if line.get("name") == job:
                return int(line["status"])
        raise AssertionError(
            f"job {job} did not end (boot {self.name}, exit status {self.status}, "
            f"last line: {self.last_line()})"
        )

    def last_line(self):
        lines = [line for line in self.console.splitlines() if line.strip()]
        return lines[-1].strip()[:160] if lines else "none"

    def squeezed(self):
        """The console without blanks: firmware breaks long lines where its screen ends."""
        return re.sub(r"\s+", "", self.console)

    def expect_status(self, wanted):
        if self.status != wanted:
            errors = self.errors.strip().splitlines() or ["none"]
            raise AssertionError(
                f"boot {self.name}: exit status {self.status}, wanted {wanted}; "
                f"error line: {errors[-1]}; last line: {self.last_line()}"
            )

    def region(self, number):
        if not self.ledger:
            raise AssertionError(f"boot {self.name}: no ledger was written")
        region = self.ledger["regions"].get(str(number))
        if region is None:
            raise AssertionError(f"boot {self.name}: the ledger has no region {number}")
        return region


@functools.lru_cache(None)
def kernel(flavour="cloud", suite=""):
    """Debian's kernel of this machine's suite, or of another one: a path."""
    other = ["--suite", suite] if suite else []
    return tool([path("programs", "kernel.sh"), *other, flavour]).split()[0]


def initrd(flavour="cloud", name="initrd"):
    """The path of an initial RAM disk, which make makes (programs/images.mk)."""
    return path("build", "payload", f"{name}-{flavour}.img")


@functools.lru_cache(None)
def image(config="", *folder):
    """The path of the image that has these options, below that folder of build/; testbed/image.sh
    says which."""
    return tool([path("testbed", "image.sh"), config, path("build", *folder)]).strip()


@functools.lru_cache(None)
def menu():
    """What the boot menu has to know of the columns, columns.cfg."""
    return tool([path("testbed", "menu.sh")])


@functools.lru_cache(None)
def bed():
    """Of all that every boot in the emulator has."""
    emulator = os.path.join(tool([path("testbed", "build.sh")]).strip(), "bochs")
    found = {"emulator": digest(emulator), "vga": digest(VGA)}
    # Of the table of what is measured, the menu's entries alone.
    found["menu"] = digest_of(menu().encode())
    for name in BED:
        found[name] = digest(path("testbed", name))
    return {**found, **{name: digest_any(name) for name in TOOLS}}


@functools.lru_cache(None)
def grub_modules(folder):
    return digest_below(folder or os.environ.get("GRUB_MODULES") or GRUB)


@functools.lru_cache(None)
def acpi_tables(cpus):
    """The folder of a machine's ACPI tables, {name: bytes}."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-acpi.", dir=SCRATCH) as work:
        tool([path("testbed", "acpi", "build.sh"), work, str(cpus)])
        found = {}
        for name in sorted(os.listdir(work)):
            with open(os.path.join(work, name), "rb") as source:
                found[name] = source.read()
        return found


def write_tables(folder, cpus, change):
    os.makedirs(folder)
    for name, data in acpi_tables(cpus).items():
        with open(os.path.join(folder, name), "wb") as out:
            out.write(data)
    if change:
        change(folder)


@functools.lru_cache(None)
def loader(grub):
    """A folder, which goes when nobody has it, with loader.img: a volume with GRUB alone, which
    looks for its menu on the others; `grub`: the folder of its modules, "" for this machine's."""
    work = tempfile.TemporaryDirectory(prefix="pmuvisor-loader.", dir=SCRATCH)
    tree = os.path.join(work.name, "tree")
    os.makedirs(os.path.join(tree, "EFI", "pmuvisor"))
    with open(os.path.join(tree, "EFI", "pmuvisor", "README"), "w", encoding="ascii") as out:
        out.write("The menu is on another volume.\n")
    tool(
        [
            path("testbed", "disk.sh"),
            "--out",
            os.path.join(work.name, "loader.img"),
            "--tree",
            tree,
            "--size",
            str(GRUB_MIB),
            *(["--grub", grub] if grub else []),
        ]
    )
    return work


def put(file, disk, sector):
    """Into an image, from that sector on; what is zero is left out."""
    tool(
        [
            "dd",
            f"if={file}",
            f"of={disk}",
            "bs=1M",
            "conv=notrunc,sparse",
            "status=none",
            f"seek={sector * SECTOR}",
            "oflag=seek_bytes",
        ]
    )


def whole_disk(disk, grub, volume):
    """Makes a disk of GRUB's volume and a boot's own."""
    with open(disk, "wb") as out:
        out.write(
            gpt.mbr(
                (PARTITION_ESP, GRUB_FIRST, GRUB_MIB << 11),
                (PARTITION_FAT, OWN_FIRST, DISK_SECTORS - OWN_FIRST),
            )
        )
        out.truncate(DISK_SECTORS * SECTOR)
    work = loader(grub)
    put(os.path.join(work.name, "loader.img"), disk, GRUB_FIRST)
    put(volume, disk, OWN_FIRST)


def targets_in(part):
    """The files in it that make makes."""
    if isinstance(part, str):
        return [part] if part.startswith(path("build") + os.sep) else []
    if isinstance(part, dict):
        return [name for value in part.values() for name in targets_in(value)]
    return [name for value in part for name in targets_in(value)] if isinstance(part, tuple) else []


def digest_part(part):
    if isinstance(part, bytes):
        return digest_of(part)
    if isinstance(part, dict):
        return {name: digest_part(value) for name, value in part.items()}
    return [digest_part(value) for value in part] if isinstance(part, tuple) else digest_below(part)


def bytes_of(part):
    """A file's contents; an archive of a dictionary {path in the guest: file}; several in a row."""
    if isinstance(part, bytes):
        return part
    if isinstance(part, dict):
        return initramfs.of_files(part)
    if isinstance(part, tuple):
        # An archive begins at a multiple of four bytes.
        return b"".join(data + bytes(-len(data) % 4) for data in map(bytes_of, part))
    with open(part, "rb") as source:
        return source.read()


@dataclasses.dataclass
class Volume:
    """What is on the disk that a machine boots from. `kernel`, `efi`: files; `initrd`, and what is
    added ({place on the volume: ...}): a file or folder, bytes, a dictionary {path in the guest:
    file} that becomes an archive, or several in a tuple, one after the other. `menu`: text in place
    of testbed/grub.cfg. `words`: of the kernel's command line, those that the guest's init asks the
    emulator for (README.md, "Words"); they are not on the disk."""

    entry: str
    append: str
    config: str
    kernel: str
    initrd: object
    efi: str = ""
    menu: str | None = None
    add: dict = dataclasses.field(default_factory=dict)
    words: str = ""

    def targets(self):
        return targets_in((self.kernel, self.initrd, self.efi, self.add))

    def inputs(self):
        files = {"kernel": self.kernel, "initrd": self.initrd, "add": self.add}
        if self.efi:
            files["efi"] = self.efi
        return {
            **{name: digest_part(part) for name, part in files.items()},
            "entry": self.entry,
            "append": self.append,
            "config": self.config,
            "menu": self.menu,
            "words": bool(self.words),
        }

    def options(self, work):
        """disk.sh's, for this volume."""
        initrd = self.initrd
        if not isinstance(initrd, str):
            initrd = os.path.join(work, "initrd.img")
            with open(initrd, "wb") as out:
                out.write(bytes_of(self.initrd))
        append = self.append + (" pmv.words=emulator" if self.words else "")
        options = [
            "--entry",
            self.entry,
            "--append",
            append,
            "--config",
            self.config,
            "--kernel",
            self.kernel,
            "--initrd",
            initrd,
        ]
        if self.efi:
            options += ["--efi", self.efi]
        if self.menu:
            name = os.path.join(work, "menu.cfg")
            with open(name, "w", encoding="ascii") as out:
                out.write(self.menu)
            options += ["--menu", name]
        for number, (place, part) in enumerate(self.add.items()):
            name = part
            if not isinstance(part, str):
                name = os.path.join(work, f"added{number}")
                if isinstance(part, dict):
                    for inside, data in part.items():
                        file = os.path.join(name, inside)
                        os.makedirs(os.path.dirname(file), exist_ok=True)
                        with open(file, "wb") as out:
                            out.write(bytes_of(data))
                else:
                    with open(name, "wb") as out:
                        out.write(bytes_of(part))
            options += ["--add", f"{name}={place}"]
        return options


@dataclasses.dataclass
class Machine:
    """What runs a disk: run.sh's options, and when the run ends."""

    cpus: int = 1
    memory: int = 512
    model: str | None = None
    panic: str | None = None
    firmware: str = ""
    knobs: str | None = None
    limit: int = machine.LIMIT
    until: str | None = None
    fork: bool = True

    def inputs(self):
        firmware = self.firmware or os.environ.get("FIRMWARE") or FIRMWARE
        return {
            **dataclasses.asdict(self),
            "firmware": digest(firmware),
            "fork": self.is_forked() and servers.early_knobs(self.knobs),
        }

    def is_forked(self):
        return self.fork and os.environ.get("FORK", "1") != "0"

    def options(self):
        options = ["--memory", str(self.memory), "--cpus", str(self.cpus)]
        for name in ("firmware", "model", "panic"):
            if getattr(self, name):
                options += [f"--{name}", getattr(self, name)]
        return options


@dataclasses.dataclass
class Emulated:
    """One boot in the emulator. `listed`: processors in the MADT, where they are not those that are
    there. `tables`: called with the folder of the machine's ACPI tables, to change them. `grub`:
    the modules of another GRUB than this machine's. `read`: files of EFI/pmuvisor to be read
    afterwards.
    """

    name: str
    volume: Volume
    machine: Machine
    listed: int = 0
    tables: object = None
    grub: str = ""
    read: tuple = ()

    def targets(self):
        return self.volume.targets()

    def tables_digest(self):
        with tempfile.TemporaryDirectory(prefix="pmuvisor-acpi.", dir=SCRATCH) as work:
            folder = os.path.join(work, "acpi")
            write_tables(folder, self.listed or self.machine.cpus, self.tables)
            return digest_below(folder)

    def inputs(self):
        return {
            "bed": bed(),
            "volume": self.volume.inputs(),
            "words": self.volume.words,
            "machine": self.machine.inputs(),
            "acpi": self.tables_digest(),
            "grub": grub_modules(self.grub),
            "read": list(self.read),
        }

    def kind(self):
        return "boots of the test kernel" if self.volume.kernel == TEST_KERNEL else "boots of Linux"

    def disk(self, work):
        """Makes the disk in that folder. Returns its path, and what servers.socket() wants to know
        of it."""
        disk, volume, acpi, columns = (
            os.path.join(work, name) for name in ("disk.img", "volume.img", "acpi", "columns.cfg")
        )
        write_tables(acpi, self.listed or self.machine.cpus, self.tables)
        with open(columns, "w", encoding="ascii") as out:
            out.write(menu())
        tool(
            [
                path("testbed", "disk.sh"),
                "--out",
                volume,
                "--volume",
                str(OWN_RESERVED),
                "--acpi",
                acpi,
                "--columns",
                columns,
                *self.volume.options(work),
            ]
        )
        count = os.path.getsize(volume) // SECTOR - OWN_RESERVED
        whole_disk(disk, self.grub, volume)
        os.remove(volume)
        return disk, (f"{OWN_FIRST + OWN_RESERVED}+{count}+{OWN_PEEK}", grub_modules(self.grub))

    def make(self, folder):
        """Boots. All that the boot leaves is in the folder. Returns what Boot wants to know."""
        with tempfile.TemporaryDirectory(prefix="pmuvisor-e2e.", dir=SCRATCH) as work:
            disk, own = self.disk(work)
            about = run_disk(folder, disk, self.machine, own, self.volume.words)
            os.mkdir(os.path.join(folder, "read"))
            for name in self.read:
                data = machine.read_file(disk, f"::/EFI/pmuvisor/{name}", OWN_FIRST * SECTOR)
                if data is not None:
                    with open(os.path.join(folder, "read", name), "wb") as out:
                        out.write(data)
            return {**about, "read": list(self.read)}


def server_of(disk, what, own=()):
    """Returns the socket of a server for this machine and such disks; `own`: see servers.py."""
    inputs = [bed(), what.inputs()["firmware"]]
    return servers.socket_of(inputs, disk, what.options(), what.knobs, own)


def run_disk(folder, disk, what, own=(), words=""):
    """Runs a disk in the emulator; `own`: see servers.socket(). Files that knobs name are the
    folder's own, in files/."""
    files, knobs = os.path.join(folder, "files"), os.path.join(folder, "knobs")
    os.makedirs(files, exist_ok=True)
    run = [
        path("testbed", "run.sh"),
        "--disk",
        disk,
        "--ledger",
        os.path.join(folder, "ledger"),
        "--timeout",
        str(machine.BACKSTOP_SECONDS),
        "--limit",
        str(what.limit),
        *(["--words", words] if words else []),
        *(["--until", what.until] if what.until else []),
    ]
    if what.knobs is not None:
        with open(knobs, "w", encoding="ascii") as out:
            out.write(what.knobs)
        run += ["--knobs", knobs]
    options = what.options()
    if what.is_forked():
        options = ["--from", server_of(disk, what, own)]
    return {"status": machine.run_into(folder, run + options, cwd=files)}


def show(keep, name, folder):
    """Shows a boot's files in the folder `keep` under the boot's name."""
    for inside, shown in (("console", "console"), ("errors", "errors"), ("ledger", "json")):
        target, link = os.path.join(folder, inside), os.path.join(keep, f"{name}.{shown}")
        with contextlib.suppress(OSError):
            if os.path.lexists(link):
                os.remove(link)
            if os.path.exists(target):
                os.symlink(os.path.relpath(target, keep), link)
