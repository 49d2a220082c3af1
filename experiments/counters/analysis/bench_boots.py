# SPDX-License-Identifier: BSD-2-Clause
# bench_boots.py: the boots that bring this experiment's counts and samples, for bench/plan.py.

ACCURACY = "pmv.accuracy=1:1:16"
# The small inputs have few misses of the last level: ten times as dense as the paper's.
REAL_PERIODS = "pmv.real_periods=40000:100:500"
BOOTS = {
    "accuracy": {
        "jobs": ("accuracy",), "image": "bench", "cells": {"accuracy": None},
        "limit": 600, "estimate": (60, 60),
        "words": {"emulator": ACCURACY, "quick": ACCURACY,
                  "nested": ""}},
    "scenarios": {
        "jobs": ("scenarios",), "image": "bench", "cells": {"scenarios": None},
        "limit": 600, "estimate": (60, 60), "cpus": 2, "memory": 1024,
        "words": {"emulator": ACCURACY, "quick": ACCURACY,
                  "nested": ""}},
    "real": {
        "jobs": ("real",), "image": "real", "cells": {"real": None},
        "limit": 1500, "estimate": (150, 60), "memory": 768,
        "words": {"emulator": f"pmv.real_scale=1 {REAL_PERIODS}",
                  "quick": f"pmv.real_scale=1 {REAL_PERIODS} pmv.real=gzip,sqlite3,glpsol",
                  "nested": ""}},
}
NOT_QUICK = ("accuracy", "scenarios", "real")
