# SPDX-License-Identifier: BSD-2-Clause
# test_cet.py: a processor with CET and protection keys, natively and under PMUvisor: shadow stacks,
# branch tracking and single steps of branches across exits, in the test kernel.
from tests.e2e import kernel
from tests.e2e.kernel import BASICS, Plan, expect_ok

MODEL = "sapphire_rapids"
STEPS = ["smp-step", "smp-cet", "xss"]


def run(lab, entry, **more):
    return kernel.run(
        lab, f"cet-{entry}", Plan().add(*BASICS, *STEPS), entry=entry, model=MODEL, **more
    )


def test_native(lab):
    """The reference: what the SDM says."""
    expect_ok(run(lab, "native"), BASICS + STEPS, skipped=["vmcall"])


def test_guest(lab):
    """The same, with exits between: CPUID shows CET, for VMX switches its state."""
    boot = run(lab, "msr+nmi")
    expect_ok(boot, BASICS + STEPS)


def test_hidden(lab):
    """Where VMX does not switch CET, CPUID hides it, and IA32_XSS takes no bit of it."""
    boot = kernel.run(
        lab, "cet-hidden", Plan("hide_control load_cet_state").add("xss"), model=MODEL
    )
    expect_ok(boot, ["xss"])
