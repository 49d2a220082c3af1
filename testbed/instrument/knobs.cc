// SPDX-License-Identifier: BSD-2-Clause
#include "knobs.h"
static Knobs current;
void knobs_init() {}
const Knobs &knobs() { return current; }
