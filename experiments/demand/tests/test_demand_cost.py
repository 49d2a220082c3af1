# SPDX-License-Identifier: BSD-2-Clause
import json
import pytest
import demand_boots

@pytest.mark.full
def test_all(lab):
    json.dump(demand_boots.all_measured(lab), open("/tmp/s5-all.json", "w"))
