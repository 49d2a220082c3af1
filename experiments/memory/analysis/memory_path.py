# SPDX-License-Identifier: BSD-2-Clause
# memory_path.py: where the modules are that the memory trace's programs have from elsewhere: those
# of experiments/shared, of bench/ (the report's style, the model of cycles) and of testbed/.
# Whoever uses one of them imports this first.
import pathlib
import sys

TOP = pathlib.Path(__file__).resolve().parents[3]
sys.path += [str(TOP / folder) for folder in ("experiments/shared/analysis", "bench", "testbed")]
