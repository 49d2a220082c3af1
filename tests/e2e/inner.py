# SPDX-License-Identifier: BSD-2-Clause
# inner.py: boots under QEMU/KVM in the emulator (testbed/nested.py), and what each of them owes.
from testbed import nested
from testbed.machine import path


def linux(lab, name, **more):
    return nested.boot(lab, f"nested-{name}", **more)


def kernel_boot(lab, name, words, **more):
    return nested.boot(
        lab,
        f"nested-{name}",
        kernel=path("build", "kernel.bzImage"),
        initrd="/etc/hostname",
        append="tests=" + ",".join(words),
        **more,
    )


def expect_quiet(boot):
    """The outer kernel complained of nothing since KVM was loaded."""
    assert boot.log == [], f"boot {boot.name}: the outer kernel: {boot.log[:3]}"
