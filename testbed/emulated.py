# SPDX-License-Identifier: BSD-2-Clause
# emulated.py: describes a boot in the emulator (boots.py) by the words that differ from what most
# boots have.
from testbed import boots, machine
from testbed.machine import PAYLOAD_APPEND

WORDS_MAX = 2047  # run.sh's


def volume(
    entry="msr+nmi",
    append="",
    config="",
    jobs="report",
    end="poweroff",
    kernel=None,
    initrd=None,
    efi=None,
    menu=None,
    add=None,
    flavour="cloud",
    tools=False,
):
    """Describes a volume. Without a tick and mitigations, unless the boot is about them: every
    figure is so. And nobody is there to press a key."""
    defaults = [
        word
        for word in ("tick=0", "mitigations=off", "wait=0")
        if word.split("=", maxsplit=1)[0] + "=" not in config
    ]
    kernel = kernel or boots.kernel(flavour)
    words = f"pmv.run={jobs} pmv.end={end} {append}".split()
    # Where Linux has the project's init, these words come late. So boots that differ in them alone
    # have the same disk.
    late = (
        []
        if menu or kernel == boots.TEST_KERNEL
        else [word for word in words if word.startswith("pmv.")]
    )
    if len(" ".join(late)) > WORDS_MAX:
        late = []
    early = [word for word in words if word not in late]
    return boots.Volume(
        entry,
        " ".join([PAYLOAD_APPEND, *early]),
        " ".join([*defaults, config]).strip(),
        kernel,
        initrd or boots.initrd(flavour, "tools" if tools else "initrd"),
        efi or boots.image(config),
        menu,
        dict(add or {}),
        " ".join(late),
    )


def emulated(
    name,
    cpus=1,
    memory=512,
    model=None,
    panic=None,
    knobs=None,
    limit=machine.LIMIT,
    until=None,
    fork=True,
    firmware=None,
    listed=0,
    tables=None,
    read=(),
    **words,
):
    """Describes one boot in the emulator. See testbed/README.md for knobs and models; a file that a
    knob names is the boot's own (Boot.path()). `limit`: after this number of millions of emulated
    instructions the run ends with STATUS_LIMIT. `until`: a little after this text on the console
    it ends with STATUS_TEXT. `firmware`: of another Debian, as machine.firmware() returns it.
    `fork`: from a server of boots, unless FORK=0; else from power-on. `words`: see volume().
    """
    image, grub = firmware or ("", "")
    return boots.Emulated(
        name,
        volume(**words),
        boots.Machine(cpus, memory, model, panic, image, knobs, limit, until, fork),
        listed,
        tables,
        grub,
        tuple(read),
    )
