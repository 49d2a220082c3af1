-- SPDX-License-Identifier: BSD-2-Clause
-- wrk.lua: makes wrk mark what is measured, and print its figures as they are instead of rounded. It
-- has no function that wrk calls for each request. $REGION is the region, 0 for none; it begins when
-- wrk's thread is ready to connect, and ends with its last answer.

local region = os.getenv("REGION") or "0"

local function mark(begin)
    if region ~= "0" then
        os.execute("/bin/mark " .. region .. " " .. begin)
    end
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
