#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
# check.py: runs the unit tests test_*.py beside it: "ok NAME", or "FAIL NAME: why", for each. Boots
# nothing, writes only in temporary folders.
import glob
import importlib
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "testbed")]
# The folder of the sources stays clean.
sys.dont_write_bytecode = True


class Report(unittest.TestResult):
    """One line for each test."""

    def name(self, test):
        return test.id().rpartition(".")[2].removeprefix("test_")

    def addSuccess(self, test):
        print(f"ok {self.name(test)}")

    def addSkip(self, test, reason):
        print(f"SKIP {self.name(test)}: {reason}")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        print(f"FAIL {self.name(test)}: {' '.join(str(err[1]).split())}")

    def addError(self, test, err):
        super().addError(test, err)
        print(f"FAIL {self.name(test)}: {err[0].__name__}: {' '.join(str(err[1]).split())}")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            print(f"FAIL {self.name(test)}: {' '.join(str(err[1]).split())}")


def main():
    suite = unittest.TestSuite()
    for name in sorted(glob.glob(os.path.join(HERE, "test_*.py"))):
        module = importlib.import_module(os.path.basename(name).removesuffix(".py"))
        suite.addTests(unittest.defaultTestLoader.loadTestsFromModule(module))
    report = Report()
    suite.run(report)
    return 0 if report.wasSuccessful() and report.testsRun > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
