# SPDX-License-Identifier: BSD-2-Clause
# pt_decoders.py: the branches of a trace of Intel PT by two decoders that know nothing of each
# other: perf's, in the guest, and libipt (Intel's) here. The job `pt` hands over what perf printed
# and its file.
import struct
import subprocess

from testbed.machine import path

PROGRAM = path("build/programs/traced")
# Linux, tools/perf/Documentation/perf.data-file-format.txt; tools/lib/perf/include/perf/event.h.
FILE_HEADER = struct.Struct("<8s6Q")  # the data section's place and size come last
RECORD_HEADER = struct.Struct("<IHH")
AUXTRACE = 71
WORD = 8
AUXTRACE_RECORD = struct.Struct("<QQQIiiI")  # size, offset, reference, index, thread, processor, 0


def perf(done, case, processor=None):
    """perf's list: (from, to) of each branch."""
    found = []
    with open(done.path(f"guest/{case}.list"), encoding="utf-8") as source:
        for line in source:
            words = line.split()
            if processor is not None and words.pop(0) != f"[{processor:03}]":
                continue
            if words[0].startswith("branches"):
                assert words[2] == "=>", line
                found.append((int(words[1], 16), int(words[3], 16)))
    return found


def packets(data, processor=0):
    """What perf's file has of the trace of one processor, byte by byte as it was recorded."""
    magic, _, _, _, _, at, size = FILE_HEADER.unpack_from(data)
    assert magic == b"PERFILE2", magic
    end, found = at + size, bytearray()
    while at < end:
        kind, _, length = RECORD_HEADER.unpack_from(data, at)
        at += length
        if kind == AUXTRACE:
            size, offset, _, _, _, where, _ = AUXTRACE_RECORD.unpack_from(
                data, at - length + RECORD_HEADER.size
            )
            if where == processor:
                # perf fills a piece up to whole words.
                assert (
                    0 <= len(found) - offset < WORD
                ), f"the trace goes on at {offset}, wanted {len(found)}"
                del found[offset:]
                found += data[at : at + size]
            at += size
    assert found, f"no trace of processor {processor}"
    return bytes(found)


def listed(tool, trace, scratch, *arguments):
    """What a program of build/, made of libipt, prints of a trace: lines of two hexadecimal
    numbers."""
    (scratch / "trace").write_bytes(trace)
    subprocess.run(["make", "-s", "-C", path(), f"build/{tool}"], check=True)
    said = subprocess.run(
        [path("build", tool), scratch / "trace", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    return [tuple(int(word, 16) for word in line.split()) for line in said.stdout.splitlines()]


def libipt(done, case, scratch, processor=0):
    """libipt's list, of user mode of a program that is not PIE."""
    with open(done.path(f"guest/{case}.data"), "rb") as source:
        return listed("libipt_branches", packets(source.read(), processor), scratch, PROGRAM)
