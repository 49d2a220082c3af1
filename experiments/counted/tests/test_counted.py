# SPDX-License-Identifier: BSD-2-Clause
import pytest
import counted_boots

@pytest.mark.parametrize("column", ["native", "msr+nmi", "msr", "intercept", "kvm", "kvm-new", "kvm-mediated"])
def test_x(lab, column):
    for one in counted_boots.rows(lab, column):
        print(one)
