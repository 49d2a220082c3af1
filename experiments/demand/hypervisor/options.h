/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The option of the experiment. The row has the format of boot/option_table.h.
 */
#pragma once

#define EXPERIMENT_OPTIONS(OPTION)                                                                 \
    OPTION(second_user, CHOICE, second_user, SECOND_USER_OFF, "off, counting or whole",            \
           VALUES(NAME("off", SECOND_USER_OFF), NAME("counting", SECOND_USER_COUNTING),            \
                  NAME("whole", SECOND_USER_WHOLE)),                                               \
           "At each tick the PMU goes to a second user and comes back, as at a switch to another " \
           "virtual machine and back, where the guest has it: with msr and msr+nmi always, with "  \
           "demand while it passes. counting: the registers that counting needs. whole: precise "  \
           "sampling's and branch records, too.")
