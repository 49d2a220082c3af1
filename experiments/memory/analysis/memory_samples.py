# SPDX-License-Identifier: BSD-2-Clause
# memory_samples.py: stores that perf sampled by PEBS, as accesses: the text of
# `perf script --ns -F time,event,addr,ip`. A sample is one store of many; it has no size, no
# value, no CR3 and no physical address.
import re

from experiments.memory.analysis import memory

# perf-script(1): "seconds: event: addr ip", with the field cpu "[cpu]" before it; seconds have nine
# digits after the point.
SAMPLE = re.compile(r"\s*(?:\[(\d+)\]\s+)?(\d+)\.(\d{9}):\s+(\S+):\s+([0-9a-f]+)\s+([0-9a-f]+)\s*$")
NS_KHZ = 1_000_000
STORES = "stores"


def is_text(path):
    """Whether the first line that is not empty is a sample."""
    with open(path, encoding="utf-8", errors="replace") as source:
        line = next((line for line in source if line.strip()), "")
    return SAMPLE.match(line) is not None


def read(path):
    """Takes the path of the text. Gives memory.Accesses, times in ns; lines that are no sample are
    counted in a complaint. Raises OSError."""
    found, others = memory.Accesses(tsc_khz=NS_KHZ), 0
    with open(path, encoding="utf-8", errors="replace") as source:
        for line in source:
            match = SAMPLE.match(line)
            if match is None:
                others += bool(line.strip())
                continue
            processor, seconds, rest, event, address, rip = match.groups()
            flags = memory.WRITE if STORES in event else memory.READ
            number = int(processor or 0)
            accesses = found.processors.setdefault(number, [])
            accesses.append(
                memory.Access(
                    number,
                    int(seconds) * 10**9 + int(rest),
                    len(accesses),
                    0,
                    int(rip, 16),
                    int(address, 16),
                    0,
                    "sample",
                    flags,
                    0,
                    b"",
                    b"",
                    "",
                    0,
                    (),
                )
            )
            found.unknown["a sample"] += 1
    if others:
        found.complaints.append(f"{path}: {others} lines are no samples; they are left out")
    return found
