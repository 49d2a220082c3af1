// SPDX-License-Identifier: BSD-2-Clause
//
// Traces of a program, decoded by libipt instruction by instruction: each one that the enables let
// in, none else. The decoder knows the code and the trace, nothing of this model.
#include <intel-pt.h>

#include "pt_program.h"

namespace {

constexpr uint64_t OS = RTIT_CTL_OS, USER = RTIT_CTL_USER, BRANCHEN = RTIT_CTL_BRANCHEN;
constexpr unsigned INSTRUCTIONS = 60000;

int read_code(uint8_t *buffer, size_t size, const struct pt_asid *, uint64_t ip, void *context)
{
    const TracedProgram *program = static_cast<const TracedProgram *>(context);
    int read = 0;

    for (size_t n = 0; n < size; n++) {
        int byte = program->byte(ip + n);
        if (byte < 0)
            break;
        buffer[read++] = static_cast<uint8_t>(byte);
    }
    return read > 0 ? read : -pte_nomap;
}

// Events that are pending at the decoder's place are taken off it.
int drain(struct pt_insn_decoder *decoder, int status, unsigned *overflows)
{
    while (status >= 0 && (status & pts_event_pending)) {
        struct pt_event event;
        status = pt_insn_event(decoder, &event, sizeof(event));
        *overflows += status >= 0 && event.type == ptev_overflow;
    }
    return status;
}

struct Decoded {
    std::vector<uint64_t> ips;
    unsigned errors = 0;
    unsigned overflows = 0;
};

Decoded decode(Bytes trace, TracedProgram &program, unsigned mtc_freq)
{
    struct pt_config config;
    Decoded decoded;

    pt_config_init(&config);
    config.begin = trace.data();
    config.end = trace.data() + trace.size();
    config.mtc_freq = static_cast<uint8_t>(mtc_freq);
    config.cpuid_0x15_eax = 1;
    config.cpuid_0x15_ebx = 16;
    struct pt_insn_decoder *decoder = pt_insn_alloc_decoder(&config);
    CHECK(decoder);
    CHECK_EQUAL(pt_image_set_callback(pt_insn_get_image(decoder), read_code, &program), 0);
    int status = pt_insn_sync_forward(decoder);
    while (status >= 0) {
        status = drain(decoder, status, &decoded.overflows);
        if (status < 0 || (status & pts_eos))
            break;
        struct pt_insn insn;
        status = pt_insn_next(decoder, &insn, sizeof(insn));
        if (status >= 0)
            decoded.ips.push_back(insn.ip);
    }
    decoded.errors += status < 0 && status != -pte_eos;
    if (decoded.errors > 0) {
        uint64_t offset = 0;
        pt_insn_get_offset(decoder, &offset);
        std::fprintf(stderr, "libipt: %s at %llx of %zx\n", pt_errstr(pt_errcode(status)),
                     static_cast<unsigned long long>(offset), trace.size());
    }
    pt_insn_free_decoder(decoder);
    return decoded;
}

struct Setting {
    uint64_t ctl;
    std::function<bool(unsigned, uint64_t, uint64_t)> wanted;
    bool moves_cr3 = true;
};

void check(const Setting &setting, unsigned seed, const std::map<uint32_t, uint64_t> &msrs = {})
{
    Traced traced(PtShape(), PtCrystal{16, 1});
    TracedProgram program(traced, seed, setting.moves_cr3);

    for (auto [index, value] : msrs)
        traced.set(index, value);
    program.wanted = setting.wanted;
    traced.start(setting.ctl, program.ip());
    program.run(INSTRUCTIONS);
    traced.stop(program.ip());
    Decoded decoded = decode(traced.take(), program,
                             setting.ctl >> RTIT_CTL_MTCFREQ_SHIFT & RTIT_CTL_FIELD);
    CHECK_EQUAL(decoded.errors, 0u);
    for (size_t n = 0; n < decoded.ips.size() && n < program.shown.size(); n++)
        if (decoded.ips[n] != program.shown[n])
            check_equal(__FILE__, __LINE__, ("instruction " + std::to_string(n)).c_str(),
                        decoded.ips[n], program.shown[n]);
    CHECK_EQUAL(decoded.ips.size(), program.shown.size());
    CHECK(program.shown.size() > INSTRUCTIONS / 50);
}

bool all(unsigned, uint64_t, uint64_t) { return true; }

TEST(libipt_follows_both_levels)
{
    for (unsigned seed = 1; seed <= 8; seed++)
        check({OS | USER | BRANCHEN, all}, seed);
}

TEST(libipt_follows_without_return_compression)
{
    check({OS | USER | BRANCHEN | RTIT_CTL_DISRETC, all}, 1);
}

TEST(libipt_follows_one_level)
{
    check({USER | BRANCHEN, [](unsigned cpl, uint64_t, uint64_t) { return cpl == 3; }}, 2);
    // libipt takes a TIP.PGD without an IP for one of a MOV CR3 whose PIP it has seen before, where
    // nothing is between that and the SYSRET that it is of: here there is no such instruction.
    check({OS | BRANCHEN, [](unsigned cpl, uint64_t, uint64_t) { return cpl == 0; }, false}, 3);
}

TEST(libipt_follows_one_cr3)
{
    uint64_t match = TracedProgram::CR3S[1];
    check({OS | USER | BRANCHEN | RTIT_CTL_CR3FILTER,
           [match](unsigned, uint64_t, uint64_t cr3) { return cr3 == match; }},
          4, {{IA32_RTIT_CR3_MATCH, match}});
}

TEST(libipt_follows_time)
{
    for (unsigned seed = 5; seed <= 6; seed++) {
        uint64_t both = OS | USER | BRANCHEN, time = RTIT_CTL_TSCEN | RTIT_CTL_MTCEN;
        check({both | time, all}, seed);
        check({both | time | uint64_t{3} << 14 | RTIT_CTL_CYCEN, all}, seed);
        check({both | RTIT_CTL_CYCEN | uint64_t{6} << 19 | uint64_t{2} << 24, all}, seed);
    }
}

}  // namespace
