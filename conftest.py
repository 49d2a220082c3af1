# SPDX-License-Identifier: BSD-2-Clause
# conftest.py: what all tests have from pytest: tests/frame/ names, runs and reports them.
import glob
import os
import sys

import pytest

# What pytest.ini cannot name: the folders of each experiment's helpers and analysis.
TOP = os.path.dirname(os.path.abspath(__file__))
for part in ("tests", "analysis"):
    sys.path += sorted(glob.glob(os.path.join(TOP, "experiments", "*", part)))

pytest_plugins = ["names", "programs", "run_ahead", "result_lines"]
# Helpers of the e2e tests that assert.
pytest.register_assert_rewrite("guest", "host", "inner", "kernel", "kernels", "native", "policies", "scripts")


@pytest.fixture(scope="session")
def lab(request):
    """Makes boots (testbed/machine.py). Tests that name the same boot share it."""
    from run_ahead import LAB
    return request.config.stash[LAB]
