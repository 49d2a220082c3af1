/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A file for one test, which goes with it.
 */
#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>

struct TemporaryFile {
    TemporaryFile() { close(mkstemp(name)); }
    ~TemporaryFile() { unlink(name); }
    std::string content() const
    {
        std::ostringstream all;
        all << std::ifstream(name, std::ios::binary).rdbuf();
        return all.str();
    }
    char name[32] = "/tmp/testbed.XXXXXX";
};
