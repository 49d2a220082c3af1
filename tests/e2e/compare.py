#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# compare.py: compares what two runs of the same tests have left, one from power-on (FORK=0) and one
# from servers of boots: of each boot in both folders the ledger, but for where it was forked, and
# the console, byte for byte. Usage: compare.py DIR DIR
import glob
import json
import os
import sys


def differences(one, other, where=""):
    """Where two JSON values differ, as texts."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(set(one) | set(other)):
            yield from differences(one.get(key), other.get(key), f"{where}.{key}".lstrip("."))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other)):
            yield from differences(*pair, f"{where}[{number}]")
    elif one != other:
        yield f"{where}: {one} and {other}"


def ledgers_differ(one, other):
    """The same of two ledgers. Both count from power-on: all but the fork is to be equal."""
    return list(differences({**one, "forked_at": 0}, {**other, "forked_at": 0}))


def read(name):
    with open(name, "rb") as source:
        return source.read()


def compare(name, folders):
    """What differs between the boots of that name."""
    ledgers = [json.loads(read(os.path.join(folder, f"{name}.json"))) for folder in folders]
    found = ledgers_differ(*ledgers)
    consoles = [read(os.path.join(folder, f"{name}.console")).splitlines() for folder in folders]
    if consoles[0] != consoles[1]:
        lines = [pair for pair in zip(*consoles) if pair[0] != pair[1]]
        found.append(f"console: {lines[0] if lines else 'one is longer'}")
    return found, [ledger["forked_at"] for ledger in ledgers]


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: compare.py DIR DIR")
    folders = sys.argv[1:]
    names = [
        {
            os.path.basename(name).removesuffix(".json")
            for name in glob.glob(os.path.join(folder, "*.json"))
        }
        for folder in folders
    ]
    bad = forked = 0
    for name in sorted(names[0] & names[1]):
        found, places = compare(name, folders)
        bad += bool(found)
        forked += (places[0] == 0) != (places[1] == 0)
        if found:
            print(f"FAIL {name}: {'; '.join(found)[:400]}")
    for name in sorted(names[0] ^ names[1]):
        print(f"SKIP {name}: in one folder alone")
    print(
        f"{len(names[0] & names[1])} boots compared, {forked} of them once from power-on and "
        f"once forked, {bad} differ"
    )
    return 0 if forked and not bad else 1


if __name__ == "__main__":
    sys.exit(main())
