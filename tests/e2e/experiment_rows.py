# SPDX-License-Identifier: BSD-2-Clause
# experiment_rows.py: what experiments add to the policy's own tests,
# experiments/NAME/tests/rows.ini:
#
#   [sequences]                  for sequences.py
#   rows = OPTION=VALUE,... ...  one of all experiments' is drawn for a seed, then one of its values
#   beside = OPTION=VALUE,...    drawn as well where the row is this experiment's
#   hide_mwait = OPTION=VALUE    under this the guest has no MONITOR and MWAIT
#   steps = OPTION=VALUE ...     under these an access may be stepped
#   slower = OPTION=VALUE:N ...  under these a run may take N more instructions for each native one
#   mutants = NAME ...           of its mutants, those that the fuzzer is to see
#   [instructions]               for test_instruction.py
#   options = OPTION=VALUE ...   under these more instructions exit
#   [entries]                    for test_entry.py
#   boots =                      options of a boot, one boot a line
import configparser
import glob
import os

from testbed.machine import TOP


def choices(text):
    """[(option, (value, ...)), ...] of OPTION=VALUE,... ..."""
    return [
        (name, tuple(values.split(",")))
        for name, _, values in (word.partition("=") for word in text.split())
    ]


class Experiment:
    def __init__(self, path):
        parsed = configparser.ConfigParser()
        with open(path, encoding="utf-8") as file:
            parsed.read_file(file)
        sequences = parsed["sequences"] if parsed.has_section("sequences") else {}
        self.rows = choices(sequences.get("rows", ""))
        self.beside = choices(sequences.get("beside", ""))
        self.hide_mwait = sequences.get("hide_mwait", "").split()
        self.steps = sequences.get("steps", "").split()
        self.slower = [
            (option, int(times))
            for option, _, times in (
                word.rpartition(":") for word in sequences.get("slower", "").split()
            )
        ]
        self.mutants = sequences.get("mutants", "").split()
        self.entries = parsed.get("entries", "boots", fallback="").strip().splitlines()
        self.options = parsed.get("instructions", "options", fallback="").split()


# In the order in which a seed draws of them.
EXPERIMENTS = [
    Experiment(path)
    for path in sorted(
        glob.glob(os.path.join(TOP, "experiments", "*", "tests", "rows.ini")), reverse=True
    )
]


def all_of(field):
    return [value for experiment in EXPERIMENTS for value in getattr(experiment, field)]
