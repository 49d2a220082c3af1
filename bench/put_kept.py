# SPDX-License-Identifier: BSD-2-Clause
"""Puts the tables of results/answers/, of each experiment that keeps one there, into a results
file, in place of those of the same keys. Its boots are then those of results/answers/, not of the
file's run; each says its commit.

Usage: python3 -m bench.put_kept RESULTS.json
"""
import sys

from bench import added, kept, results


def put(found):
    """The results with these tables."""
    of_answers = [kept.entry(one, one.kept()) for one in added.measured() if one.kept]
    keys = {one["key"] for one in of_answers}
    others = [one for one in found["tables"] if one["key"] not in keys]
    return {**found, "tables": sorted(others + of_answers, key=lambda one: one["experiment"])}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.splitlines()[-1])
    results.save(put(results.load(sys.argv[1])), sys.argv[1])


if __name__ == "__main__":
    main()
