# SPDX-License-Identifier: BSD-2-Clause
# kvm_traces.py: boots in the emulator that trace Debian's own KVM while it runs a guest, for the
# tests: what probe they set, and the trace's text out of their console.
import os
import re
import struct
import subprocess

from experiments.flow.analysis import btf, kvm_probe, kvm_trace
from testbed import nested
from testbed.machine import path, tool

# Linux, Documentation/arch/x86/boot.rst, "Details of Header Fields".
SETUP_SECTORS, PAYLOAD, SECTOR = 0x1F1, 0x248, 512
LIMIT = 40_000  # millions of instructions
NESTED_LIMIT = 20_000  # with the text of the trace on the console
LOADS = path("build/payload/flowloads-cloud.img")
MEMORY = 1024  # MiB, half of them the guest's


def vmlinux(kernel):
    """The ELF file in Debian's bzImage, which is packed by lz4."""
    with open(kernel, "rb") as source:
        image = source.read()
    offset, length = struct.unpack_from("<II", image, PAYLOAD)
    start = (image[SETUP_SECTORS] + 1) * SECTOR + offset
    # After it are four bytes more, its length.
    done = subprocess.run(
        ["lz4", "-dc"],
        input=image[start : start + length - 4],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        check=False,
    )
    assert done.stdout.startswith(b"\x7fELF"), f"{kernel}: {done.stderr.decode()}"
    return done.stdout


def module(kernel, name):
    modules = tool([path("programs", "kernel.sh"), "cloud"]).split()[1]
    for folder, _, files in os.walk(modules):
        for file in files:
            if re.fullmatch(rf"{name}\.ko(\.xz)?", file):
                with open(os.path.join(folder, file), "rb") as source:
                    data = source.read()
                if file.endswith(".xz"):
                    data = subprocess.run(
                        ["xz", "-dc"], input=data, stdout=subprocess.PIPE, check=True
                    ).stdout
                return data
    raise AssertionError(f"{kernel}: no module {name}")


def probe_word(lab):
    """The probe as a word of the command line."""
    kernel = lab.kernel()
    line = kvm_probe.probe(btf.section(vmlinux(kernel)), btf.section(module(kernel, "kvm-intel")))
    return "pmv.ktrace_probe=" + line.replace(" ", ",")


def boot(lab, name, jobs="pair", append=""):
    """Linux under Debian's KVM, with a trace of it."""
    return lab.emulator(
        name,
        entry="native",
        jobs="kvm",
        memory=MEMORY,
        limit=LIMIT,
        initrd=path("build/payload/kvm-flowloads-cloud.img"),
        append=f"pmv.kvm={jobs} pmv.kvm_around=ktrace {probe_word(lab)} {append}",
    )


def nested_boot(lab, name, jobs="pair,report", **more):
    """Linux under PMUvisor under KVM, with a trace of KVM."""
    return nested.boot(
        lab,
        name,
        jobs=jobs,
        initrd=LOADS,
        outer=f"pmv.ktrace=1 {probe_word(lab)}",
        limit=NESTED_LIMIT,
        **more,
    )


def host(found, name=""):
    """What kvm_trace.py makes of the trace on a console; `name`: of several."""
    assert (
        "ktrace: file=" not in found.console and "ktrace: error" not in found.console
    ), re.findall("ktrace: .*", found.console)[:3]
    start = f"ktrace: begin{' name=' + name if name else ''}\n"
    assert found.console.count(start) == 1, found.last_line()
    text = found.console.split(start)[1]
    assert "ktrace: end" in text, found.last_line()
    return kvm_trace.read(text.split("ktrace: end")[0].splitlines())
