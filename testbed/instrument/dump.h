/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What experiments write of the machine's memory at the end of a run, each where a knob NAME PATH
 * asks for it: files of experiments/NAME/emulator/. Its dumps.inc has a row DUMP(NAME, function) of
 * each; the build makes one dumps.inc of all. Knows no Bochs.
 */
#pragma once

#include <cstdint>
#include <functional>
#include <string>

/* The host's address of a page of the guest's memory; null: none is there. */
using PageOf = std::function<const uint8_t *(uint64_t address)>;

/* Looks at `bytes` of memory. Negative: the file cannot be written. */
using Dump = int(const std::string &path, uint64_t bytes, const PageOf &page);
