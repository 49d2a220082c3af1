// SPDX-License-Identifier: BSD-2-Clause
//
// The guest's files: which names are good, that pieces of one name follow each other, that no other
// name writes anything. The knob, which a server at init leaves to the run.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "check.h"
#include "guest_files.h"
#include "knobs.h"

namespace {

std::string contents(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);

    return {std::istreambuf_iterator<char>(file), {}};
}

TEST(names_of_guest_files)
{
    for (const char *good :
         {"a", "ring", "A-Z_0.9", ".a", "...", "-", "0123456789abcdef0123456789abcdef"})
        CHECK(guest_file_name_good(good));
    for (const char *bad : {"", ".", "..", "a/b", "/etc", "../a", "a b", "a\n", "\x80", "a\\b",
                            "a:b", "0123456789abcdef0123456789abcdefg"})
        CHECK(!guest_file_name_good(bad));
    CHECK(!guest_file_name_good(std::string("a\0b", 3)));
}

TEST(pieces_of_guest_files)
{
    char work[] = "/tmp/guest-files.XXXXXX";
    CHECK(mkdtemp(work) != nullptr);
    const std::string folder = std::string(work) + "/new";
    std::filesystem::create_directory(folder);
    std::ofstream(folder + "/one") << "what an earlier run has left";
    guest_file_take(folder, "one", "ab", 2);
    guest_file_take(folder, "two", "x\0z", 3);
    guest_file_take(folder, "one", "cd", 2);
    guest_file_take(folder, "empty", "", 0);
    guest_file_take(folder, "../one", "no", 2);
    guest_file_take(folder, "", "no", 2);
    std::fflush(nullptr);
    CHECK_EQUAL(contents(folder + "/one"), "abcd");
    CHECK_EQUAL(contents(folder + "/two"), std::string("x\0z", 3));
    CHECK(std::filesystem::exists(folder + "/empty"));
    CHECK(!std::filesystem::exists(std::string(work) + "/one"));
    auto entries = std::filesystem::directory_iterator(folder);
    CHECK_EQUAL(std::distance(begin(entries), end(entries)), 3);
    std::filesystem::remove_all(work);
}

TEST(knob_of_guest_files)
{
    Knobs knobs;
    std::string error;
    std::istringstream good("guest_files a b\n"), none("guest_files\n");
    CHECK(knobs_parse(good, &knobs, &error));
    CHECK_EQUAL(knobs.guest_files, "a b");
    CHECK_EQUAL(knobs.machine, "");
    CHECK(!knobs_parse(none, &knobs, &error));
}

TEST(knobs_that_a_server_at_init_leaves_to_runs)
{
    Knobs knobs;
    std::string error;
    std::istringstream in("hide_feature vmx\nguest_files a\npmi_skid 3\nexit_lines on\n");
    CHECK(knobs_parse(in, &knobs, &error));
    CHECK_EQUAL(knobs.machine, "hide_feature vmx\n");
    CHECK_EQUAL(knobs.before_init, "hide_feature vmx\npmi_skid 3\nexit_lines on\n");
}

}  // namespace
