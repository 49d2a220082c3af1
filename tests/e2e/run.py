#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# run.py: runs the tests: unit test programs given by --unit, and the end-to-end tests; as many at
# once as there are processors. One line per test, PASS, FAIL or SKIP; the last line is "N passed, N
# failed, N skipped". SKIP is not PASS.
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(os.path.dirname(HERE)), "testbed")]
# The folder of the tests stays clean.
sys.dont_write_bytecode = True

import accuracy  # noqa: E402
import apic  # noqa: E402
import auto  # noqa: E402
import bench  # noqa: E402
import boots  # noqa: E402
import containment  # noqa: E402
import fuzz  # noqa: E402
import guest  # noqa: E402
import host_linux  # noqa: E402
import host_nmi  # noqa: E402
import hypercall  # noqa: E402
import kvm  # noqa: E402
import machine  # noqa: E402
import make_bench  # noqa: E402
import measure  # noqa: E402
import model  # noqa: E402
import native  # noqa: E402
import policies  # noqa: E402
import processors  # noqa: E402
import refusals  # noqa: E402
import scripts  # noqa: E402
import smp_bench  # noqa: E402
import smp_linux  # noqa: E402
import steady  # noqa: E402
import vtd  # noqa: E402
import workloads  # noqa: E402

UNIT_RESULTS = {"OK": "PASS", "FAILED": "FAIL", "SKIPPED": "SKIP",
                "ok": "PASS", "FAIL": "FAIL", "SKIP": "SKIP"}
# The long ones first, so that none is left alone at the end.
GROUPS = [("smp_linux", smp_linux), ("auto", auto), ("workloads", workloads), ("host", host_nmi),
          ("bench", bench), ("policies", policies), ("kvm", kvm), ("fuzz", fuzz),
          ("make_bench", make_bench), ("accuracy", accuracy), ("model", model), ("guest", guest),
          ("smp_bench", smp_bench), ("measure", measure), ("apic", apic), ("native", native),
          ("containment", containment), ("host_linux", host_linux), ("steady", steady),
          ("hypercall", hypercall), ("vtd", vtd), ("processors", processors), ("boots", boots),
          ("refusals", refusals), ("scripts", scripts)]


class Count:
    """What has come out, and whether to go on."""

    def __init__(self):
        self.by_result = {"PASS": 0, "FAIL": 0, "SKIP": 0}
        self.lock = threading.Lock()
        self.stopped = False

    def say(self, result, name, seconds, text=""):
        text = " ".join(str(text).split())
        with self.lock:
            self.by_result[result] += 1
            print(f"{result} {name} ({seconds:.1f} s){': ' + text[:600] if text else ''}",
                  flush=True)

    def summary(self):
        results = self.by_result
        return f"{results['PASS']} passed, {results['FAIL']} failed, {results['SKIP']} skipped"


def run_unit(count, program):
    """One program: each test that it names, in cmocka's way or as "ok NAME", is one line."""
    name = "unit/" + os.path.basename(program)
    started = time.monotonic()
    try:
        done = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", check=False,
                              timeout=machine.BACKSTOP_SECONDS)
        output, status = done.stdout, done.returncode
    except subprocess.TimeoutExpired:
        count.say("FAIL", name, machine.BACKSTOP_SECONDS, "still running")
        return
    except OSError as trouble:
        count.say("FAIL", name, 0, trouble)
        return
    seconds = time.monotonic() - started
    seen = {}
    for line in output.splitlines():
        # cmocka lists the failed tests once more at its end: the first line counts.
        match = re.match(r"\[\s*(OK|FAILED|SKIPPED)\s*\] (\w+)\s*$", line) or \
            re.match(r"(ok|FAIL|SKIP)\s+(\w+)(?:: (.*))?", line)
        if match:
            text = match[3] if match.re.groups == 3 else None
            seen.setdefault(match[2], (UNIT_RESULTS[match[1]], text or ""))
    for test, (result, text) in seen.items():
        count.say(result, f"{name}/{test}", seconds / len(seen), text)
    failed = any(result == "FAIL" for result, _ in seen.values())
    if status != 0 and not failed:
        last = (output.strip().splitlines() or ["no output"])[-1]
        count.say("FAIL", name, seconds, f"exit status {status}: {last}")
    elif not seen:
        count.say("FAIL", name, seconds, "the program ran no test")


def run_test(count, lab, name, test):
    started = time.monotonic()
    try:
        text = test(lab)
        result = "PASS"
    except machine.Skip as reason:
        result, text = "SKIP", reason
    except AssertionError as trouble:
        result, text = "FAIL", trouble or "assertion"
    except (KeyError, IndexError, ValueError, OSError, TypeError,
            subprocess.SubprocessError) as trouble:
        result, text = "FAIL", f"{type(trouble).__name__}: {trouble}"
    if not count.stopped:
        count.say(result, name, time.monotonic() - started, text or "")


def run_group(count, lab, group, module, wanted):
    """The tests of one module in their order: they may share more than boots."""
    for test in module.TESTS:
        name = f"{group}/{test.__name__.removeprefix('test_')}"
        if not count.stopped and (not wanted or any(word in name for word in wanted)):
            run_test(count, lab, name, test)


def run_all(count, lab, programs, wanted, jobs):
    """Programs and groups of tests, `jobs` of them at a time. There are more threads than that:
    one that waits for a boot of another one's gives its turn away (machine.Lab)."""
    def one(function, *arguments):
        with lab.slots:
            if not count.stopped:
                function(count, *arguments)

    with concurrent.futures.ThreadPoolExecutor(2 * jobs) as pool:
        work = [pool.submit(one, run_unit, program) for program in programs]
        work += [pool.submit(one, run_group, lab, group, module, wanted)
                 for group, module in GROUPS]
        try:
            for done in concurrent.futures.as_completed(work):
                done.result()
        except BaseException:
            count.stopped = True
            lab.stop()
            raise


def main():
    parser = argparse.ArgumentParser(description="Runs PMUvisor's tests.")
    parser.add_argument("names", nargs="*",
                        help="only end-to-end tests whose name contains one of these")
    parser.add_argument("--unit", action="append", default=[], metavar="PROGRAM",
                        help="a program of unit tests to run as well")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N",
                        help="programs and groups of tests at once; default: the processors")
    parser.add_argument("--keep", default=machine.path("build", "e2e"), metavar="DIR",
                        help="where consoles and ledgers are kept")
    arguments = parser.parse_args()
    count = Count()
    jobs = max(1, arguments.jobs)
    run_all(count, machine.Lab(arguments.keep, threading.Semaphore(jobs)), arguments.unit,
            arguments.names, jobs)
    print(count.summary(), flush=True)
    return 0 if count.by_result["FAIL"] == 0 and count.by_result["PASS"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
