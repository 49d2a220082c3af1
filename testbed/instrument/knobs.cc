// SPDX-License-Identifier: BSD-2-Clause
#include "knobs.h"
#include <cstdlib>
static Knobs current;
void knobs_init() { if (getenv("TSCHZ")) current.tsc_hz = atoi(getenv("TSCHZ")); }
const Knobs &knobs() { return current; }
