# SPDX-License-Identifier: BSD-2-Clause
import json
import pytest
import demand_boots

@pytest.mark.full
@pytest.mark.parametrize("name", demand_boots.CASES)
def test_case(lab, name):
    m = demand_boots.measured(lab, name)
    for s, a in m["shares"].items():
        print(s, a)
    print(m["a1"])
    json.dump(m, open(f"/tmp/s5-{name}.json", "w"))
