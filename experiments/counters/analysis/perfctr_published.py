# SPDX-License-Identifier: BSD-2-Clause
# perfctr_published.py: figures of perfctr-xen's paper, as they were published.

PAPER = {
    "name": "perfctr-xen",
    "source": "R. Nikolaev and G. Back, Perfctr-Xen: A Framework for Performance Counter "
    "Virtualization, VEE 2011, section 5",
    "machine": "Intel Xeon E5520, 2x4 cores, 12 GB; Xen 4.0.1, Linux 2.6.32.21 PvOps, "
    "perfctr 2.6.41",
    "text": "Its error of counts relative to native is shown in plots only, without figures. Its "
    "text says that the overall relative error is very small, and that cycles, "
    "instructions and branches match native more closely than cache references and misses "
    "do. Its figures in print are ratios of sample counts, virtualized to native, of a "
    "profile of 429.mcf, with both domains on one processor or on two:",
}
# Tables 3 to 5: HPCToolkit on 429.mcf, sample counts virtualized/native. Both domains on one
# processor (1) or on two (2); each text is 1:D0, 1:D1, 2:D0, 2:D1.
COLUMNS = ("1:D0", "1:D1", "2:D0", "2:D1")
PERIODS = {"PAPI_TOT_CYC": 40000, "PAPI_L2_TCM": 1000, "PAPI_BR_INS": 500}
# Of each function one text for each event.
FUNCTIONS = {
    "main": ("0.98 0.99 0.95 0.98", "1.01 1.01 0.99 1.01", "1.01 1.01 0.98 1.01"),
    "global_opt": ("0.98 1 0.95 0.98", "1.01 1.01 0.99 1.01", "1.01 1.02 0.98 1.02"),
    "price_out_impl": ("0.98 1.01 0.95 0.99", "1 1.01 0.98 1.01", "1.02 1.04 0.99 1.03"),
    "primal_net_simplex": ("0.98 0.98 0.94 0.96", "1.03 1.02 1.01 1.01", "1 1 0.97 1"),
    "primal_bea_mpp": ("0.99 0.99 0.97 0.98", "1.04 1.04 1.07 1.05", "1 0.98 0.97 1"),
    "replace_weaker_arc": ("0.9 0.97 0.88 0.94", "0.97 0.97 1 0.96", "0.99 1.05 1.04 1.09"),
    "refresh_potential": ("0.96 0.98 0.88 0.9", "1.04 1.01 0.9 1.01", "1.02 1.28 1.03 1.04"),
    "update_tree": ("0.96 0.97 0.9 0.93", "0.83 0.72 0.53 0.61", "0.86 0.75 0.84 0.86"),
    "primal_iminus": ("1.56 1.56 1.36 1.51", "4.5 4.75 3.5 4.83", "1.53 1.47 1.23 1.27"),
    "insert_new_arc": ("1.2 1.13 1.02 1.13", "0.27 0.46 0.3 0.22", "0.99 0.87 0.95 0.96"),
    "flow_cost": ("0.94 0.93 0.94 0.94", "0.97 1.03 0.91 0.94", "0.97 0.97 0.97 0.97"),
    "dual_feasible": ("0.95 0.95 0.95 0.93", "0.95 0.95 1.05 1", "1.03 1 1 1"),
    "suspend_impl": ("0.91 0.9 0.9 0.89", "1 0.94 1 1.06", "1.07 1 1 1.07"),
}
RATIOS = {
    event: {name: texts[table] for name, texts in FUNCTIONS.items()}
    for table, event in enumerate(PERIODS)
}
# The row of the function main.
MAIN = tuple((event, tuple(rows["main"].split())) for event, rows in RATIOS.items())
