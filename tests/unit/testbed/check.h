/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A minimum for tests in C++: a list of cases, checks that name what they found. The rest of the
 * unit tests are in C and use cmocka; the emulator's library can only be C++.
 */
#pragma once

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

struct Case {
    const char *name;
    void (*run)();
};

inline std::vector<Case> &cases()
{
    static std::vector<Case> all;
    return all;
}

struct Registered {
    Registered(const char *name, void (*run)()) { cases().push_back({name, run}); }
};

#define TEST(name)                                                                                 \
    static void name();                                                                            \
    static const Registered name##_registered(#name, name);                                        \
    static void name()

template<typename Found, typename Wanted> void
check_equal(const char *file, int line, const char *what, const Found &found, const Wanted &wanted)
{
    if (found == wanted)
        return;
    std::ostringstream text;
    text << file << ':' << line << ": " << what << ": found " << found << ", wanted " << wanted;
    std::fprintf(stderr, "%s\n", text.str().c_str());
    std::exit(EXIT_FAILURE);
}

#define CHECK_EQUAL(found, wanted) check_equal(__FILE__, __LINE__, #found, found, wanted)
#define CHECK(condition)                                                                           \
    check_equal(__FILE__, __LINE__, #condition, static_cast<bool>(condition), true)
