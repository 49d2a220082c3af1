/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The option of the experiment. The row has the format of boot/option_table.h.
 */
#pragma once

#define EXPERIMENT_OPTIONS(OPTION)                                                                 \
    OPTION(second_user, CHOICE, second_user, SECOND_USER_OFF, "off, counting or whole",            \
           VALUES(NAME("off", SECOND_USER_OFF), NAME("counting", SECOND_USER_COUNTING),            \
                  NAME("whole", SECOND_USER_WHOLE)),                                               \
           "At each tick, PMUvisor switches the PMU to a second user and back, as in a switch to " \
           "another virtual machine and back. This happens only if the guest has the PMU: always " \
           "with msr and msr+nmi, and with demand while the PMU is passed through. counting: "     \
           "switches the registers that counting needs. whole: also switches branch records and "  \
           "the registers of precise sampling.")
