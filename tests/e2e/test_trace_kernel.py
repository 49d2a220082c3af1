# SPDX-License-Identifier: BSD-2-Clause
# test_trace_kernel.py: the trace of exits in the test kernel: each record, what the levels cost, that
# interrupts come in the local APIC's order under flow, and NMIs at each instruction of its exits.
import kernel
from kernel import Plan, expect_ok

TRACE = ["trace", "trace-wrap"]
FLOW = ["trace", "trace-flow", "trace-wrap"]


def exits(lab):
    return kernel.run(lab, "trace-exits", Plan().add(*TRACE, "x2apic", *TRACE), config="trace=exits")


def flow(lab):
    return kernel.run(lab, "trace-flow", Plan().add(*FLOW, "x2apic", *FLOW), config="trace=flow")


def test_exits(lab):
    """trace=exits: each exit has one record that is right in each field; off, there is none."""
    expect_ok(exits(lab), TRACE)


def test_flow(lab):
    """trace=flow: HLT, loads of CR3 and interrupts as well, and they do what they do natively."""
    expect_ok(flow(lab), FLOW)
