# SPDX-License-Identifier: BSD-2-Clause
# inference_path.py: the modules of the flow trace's analysis, which this one is made of. Whoever
# runs outside of pytest imports this first.
import pathlib
import sys

sys.path += [
    str(pathlib.Path(__file__).resolve().parents[2] / name / "analysis")
    for name in ("flow", "shared")
]
import flow_path  # noqa: E402,F401
