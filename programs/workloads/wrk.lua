-- SPDX-License-Identifier: BSD-2-Clause
-- wrk.lua: makes wrk mark what is measured, and print its figures as they are instead of rounded.
-- It has no function that wrk calls for each request. $REGION is the region of the emulator's
-- ledger (testbed/README.md), 0 for none; it begins when wrk's thread is ready to connect, and ends
-- with its last answer.

local ffi = require("ffi")
local region = tonumber(os.getenv("REGION") or "0")

ffi.cdef("void *mmap(void *address, size_t size, int rights, int flags, int file, long offset);")
local RIGHTS_ALL, MAP_PRIVATE_ANONYMOUS, PAGE = 7, 0x22, 4096

-- The marker is an instruction, XCHG BX,BX, which does nothing on hardware. Another program that
-- executed it would have its own start in the region.
local function mark(begin)
    if region == 0 then
        return
    end
    local page = ffi.C.mmap(nil, PAGE, RIGHTS_ALL, MAP_PRIVATE_ANONYMOUS, -1, 0)
    -- mov eax, edi; mov ecx, esi; xchg bx, bx; ret
    ffi.copy(page, "\x89\xf8\x89\xf1\x66\x87\xdb\xc3")
    ffi.cast("void (*)(unsigned, unsigned)", page)(region, begin)
end

function init()
    mark(1)
end

function done(summary, latency)
    mark(0)
    local errors = summary.errors
    -- wrk's own unit is the microsecond.
    print(string.format("requests=%.0f duration_us=%.0f bytes=%.0f latency_avg_us=%.3f " ..
        "latency_max_us=%.0f errors=%.0f", summary.requests, summary.duration, summary.bytes,
        latency.mean, latency.max, errors.connect + errors.read + errors.write + errors.status +
        errors.timeout))
end
