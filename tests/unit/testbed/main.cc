// SPDX-License-Identifier: BSD-2-Clause
//
// Runs every case of the emulator library's unit tests; the first failure ends the program.
#include "check.h"

int main()
{
    for (const Case &test : cases()) {
        test.run();
        std::printf("ok  %s\n", test.name);
    }
    std::printf("%zu passed\n", cases().size());
    return cases().empty() ? EXIT_FAILURE : EXIT_SUCCESS;
}
