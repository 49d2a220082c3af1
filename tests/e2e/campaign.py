# SPDX-License-Identifier: BSD-2-Clause
# campaign.py: all fuzzers of the test kernel in turn, each under a row of options and on a machine
# that are drawn: sequences, INIT and SIPI, single operations, and what is enumerated against what
# is there. Natively and under PMUvisor they have to give the same.
#
#   python3 -m tests.e2e.campaign MINUTES    each difference, until the time is over
#   python3 -m tests.e2e.campaign MINUTES IMAGE ...
# Which of these images differ, and how soon. EFI=IMAGE: a sound one, under which a row must not
# differ.
import concurrent.futures
import os
import random
import sys
import tempfile
import time
from zlib import crc32

from testbed.lab import Lab
from testbed.machine import path
from tests.e2e import sequences, test_fuzz
from tests.e2e.sequences import LIMIT, Row, guest_limit, start
from tests.e2e.test_containment import ENUMERATED

ROW_COUNT, SMP_COUNT = 320, 40  # sequences of one row
OPERATIONS = 16_384
# Not Arrow Lake, of whose CPUID more is hidden than is a row of tests/kernel/fuzz_differ.c.
FUZZ_MODELS = [None, None, "sapphire_rapids", "corei7_icelake_u"]
APIC_TRAPPED = 1  # tests/kernel/fuzz.c
PT = "pt on\n"


def tag(image):
    return os.path.basename(image) if image else "own"


def guests_policy(pick):
    """A policy, and options that change nothing which a single operation gives."""
    policy = pick(["msr+nmi", "msr+nmi", "msr", "intercept"])
    words = [pick(["", "apic=trap"]), pick(["", "stats=cycles"]), pick(["", "unblock=lazy"])]
    return policy, " ".join(filter(None, words))


def try_sequences(lab, seed, image, smp=False):
    row = Row.draw(seed, smp)
    found = sequences.find(lab, seed, SMP_COUNT if smp else ROW_COUNT, row, image, f"-{tag(image)}")
    return f"sequence {found.number} of seed {seed} under {row}" if found else None


def try_smp(lab, seed, image):
    return try_sequences(lab, seed, image, smp=True)


def try_operations(lab, seed, image):
    pick = random.Random(seed).choice
    policy, config = guests_policy(pick)
    model, x2, pt = pick(FUZZ_MODELS), pick([[], [test_fuzz.X2]]), pick(["", "", PT])
    trapped = APIC_TRAPPED if "apic=trap" in config else 0
    words = x2 + [f"fuzz:{seed}:0:{OPERATIONS}:{trapped}"]
    about = {"model": model, "knobs": test_fuzz.KNOBS + pt}
    row = " ".join(
        filter(None, [f"policy={policy}", config, model and f"model={model}", *x2, pt.strip()])
    )
    name = f"fuzz-{seed}-{crc32(row.encode())}"
    options = Row(policy, config, model=model or "")
    begun = start(lab, options)
    one = test_fuzz.boot(lab, f"{name}-native", words, limit=LIMIT, **about)
    two = test_fuzz.boot(
        lab,
        f"{name}-{tag(image)}",
        words,
        policy,
        config=config,
        efi=image,
        limit=guest_limit(begun, one, options),
        **about,
    )
    try:
        test_fuzz.survived(two)
        different = test_fuzz.first_difference(one, two)
    except AssertionError as died:
        return f"operations of seed {seed} under {row}: {str(died).splitlines()[0]}"
    return f"operations up to {different[1]} of seed {seed} under {row}" if different else None


def try_enumerations(lab, seed, image):
    """Of these that natively all are there."""
    pick = random.Random(seed).choice
    policy, config = guests_policy(pick)
    model, pmu = pick([None, "sapphire_rapids"]), pick(["", "pmu=off"])
    config = f"{config} {pmu}".strip()
    boot = lab.emulator(
        f"enumerations-{seed}-{tag(image)}",
        entry=policy,
        config=config,
        efi=image,
        kernel=path("build", "kernel.bzImage"),
        initrd=b"none\n",
        model=model,
        append="tests=enumerations",
        knobs="\n".join(ENUMERATED) + "\n",
        limit=LIMIT,
    )
    wrong = [
        row["name"]
        for row in boot.lines("enumeration")
        if row["shown"] == "1" and row["there"] == "0"
    ]
    if boot.lines("enumeration") and not wrong:
        return None
    return (
        f"enumerations of seed {seed} under policy={policy} {config}: "
        f"{' '.join(wrong) or boot.last_line()}"
    )


TRIES = [
    try_smp,
    try_sequences,
    try_operations,
    try_sequences,
    try_enumerations,
    try_operations,
    try_sequences,
]


def campaign(lab, images, seeds, end, sound=None, jobs=2):
    """A try of each seed on each of these images until one is seen to differ, or the clock says
    `end`. Gives {image: (seconds, what differs)}. Nothing here knows what is wrong with which
    image. A try in which the `sound` image differs, too, says nothing of the others."""
    found, began = {}, time.monotonic()

    def look(seed, image):
        if image in found or time.monotonic() > end:
            return
        said = TRIES[seed % len(TRIES)](lab, seed, image)
        if said and image not in found:
            found[image] = (time.monotonic() - began, said)
            print(f"{tag(image)}: found after {found[image][0]:.0f} s: {said}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for seed in seeds:
            own = TRIES[seed % len(TRIES)](lab, seed, sound)
            if own:
                print(f"the sound image differs: {own}", flush=True)
                continue
            list(pool.map(lambda image, seed=seed: look(seed, image), images))
            if len(found) == len(images) or time.monotonic() > end:
                break
    return found


def differences(lab, seeds, end, image=None, jobs=2):
    """All that differ until the clock says `end`, and the number of tries."""

    def look(seed):
        if time.monotonic() > end:
            return None, 0
        said = TRIES[seed % len(TRIES)](lab, seed, image)
        if said:
            print(said, flush=True)
        return said, 1

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        tried = list(pool.map(look, seeds))
    return [said for said, _ in tried if said], sum(one for _, one in tried)


def main(arguments):
    minutes, images, efi = float(arguments[0]), arguments[1:], os.environ.get("EFI")
    first = int(os.environ.get("SEED", "1"))
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory(prefix="pmuvisor-campaign.") as keep:
        lab = Lab(keep)
        if images:
            found = campaign(lab, images, range(first, 1_000_000), end, efi)
            print(f"{len(found)} of {len(images)} found")
            return int(len(found) < len(images))
        found, tries = differences(lab, range(first, first + 100_000), end, efi)
        print(f"{tries} tries in {minutes:.0f} minutes, seeds from {first} on: {len(found)} differ")
        return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
