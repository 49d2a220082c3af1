# SPDX-License-Identifier: BSD-2-Clause
import boots
from machine import STATUS_POWEROFF

def boot_of(lab, name, policy, words="", config="tick=1", second="off", **more):
    return lab.emulator(f"demand-{name}", config=f"policy={policy} console=none second_user={second} {config}",
                        append=f"iomem=relaxed loglevel=0 nmi_watchdog=0 {words}", jobs="share,nmilog,report",
                        initrd=boots.initrd(name="demand"), **more)

def test_try(lab):
    b = boot_of(lab, "try", "demand", words="pmv.share=0,50,100")
    b.expect_status(STATUS_POWEROFF)
    print(b.console[-2000:])
    for r in ("2800","2850","2900"):
        x = b.region(r)
        print(r, x["root"], x["nonroot"], x["nmi"], {v["name"]: (v["count"], v["root_instructions"], v.get("msrs")) for v in x["exits"].values()})
    assert 0
