// SPDX-License-Identifier: BSD-2-Clause
//
// Takes the names of opcodes apart: prefix, operation, order of a fused operation's operands,
// element. Conversions, comparisons, rounding and moves are no arithmetic to the event.
#include "floating.h"

#include <cstring>
#include <string>

namespace {

struct Operation {
    const char *name;
    uint8_t counts;
    bool single_only; /* reciprocals are of single precision; those of AVX-512 have other names */
};

constexpr Operation operations[] = {
    {"ADD", 1, false},      {"SUB", 1, false},     {"MUL", 1, false},    {"DIV", 1, false},
    {"MIN", 1, false},      {"MAX", 1, false},     {"SQRT", 1, false},   {"HADD", 1, false},
    {"HSUB", 1, false},     {"ADDSUB", 1, false},  {"RCP", 1, true},     {"RSQRT", 1, true},
    {"RCP14", 1, false},    {"RSQRT14", 1, false}, {"DP", 2, false},     {"FMADD", 2, false},
    {"FMSUB", 2, false},    {"FNMADD", 2, false},  {"FNMSUB", 2, false}, {"FMADDSUB", 2, false},
    {"FMSUBADD", 2, false},
};

// Takes it away, if the text begins so.
bool skip(std::string *text, const char *what)
{
    if (text->rfind(what, 0) != 0)
        return false;
    text->erase(0, std::strlen(what));
    return true;
}

const Operation *find(const std::string &name)
{
    for (const Operation &operation : operations)
        if (name == operation.name)
            return &operation;
    return nullptr;
}

}  // namespace

FpOpcode fp_opcode(const char *name)
{
    std::string text(name, std::strcspn(name, "_"));
    FpOpcode is;

    // EVEX_VADDPD_...
    if (text == "EVEX")
        text = std::string(name + 5, std::strcspn(name + 5, "_"));
    skip(&text, "V");
    if (text.size() < 3)
        return is;
    std::string element = text.substr(text.size() - 2);
    text.erase(text.size() - 2);
    if (element != "PS" && element != "PD" && element != "SS" && element != "SD")
        return is;
    // VFMADD132PD: which operand is which.
    for (const char *order : {"132", "213", "231"})
        if (text.size() > 3 && text.compare(text.size() - 3, 3, order) == 0) {
            text.erase(text.size() - 3);
            break;
        }
    const Operation *operation = find(text);
    is.scalar = element[0] == 'S';
    is.single = element[1] == 'S';
    if (operation && (is.single || !operation->single_only))
        is.counts = operation->counts;
    return is;
}

FpClass fp_class(const FpOpcode &opcode, unsigned length)
{
    unsigned is = FP_SCALAR_DOUBLE;

    if (!opcode.scalar)
        is = length == 4 ? FP_512_DOUBLE : length == 2 ? FP_256_DOUBLE : FP_128_DOUBLE;
    return static_cast<FpClass>(is + opcode.single);
}
