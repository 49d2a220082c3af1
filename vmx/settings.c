/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Derives the settings that apply on this machine from the options that the user chose. Pure,
 * except for the experiments' answers.
 */
#include "vmx/settings.h"

#include <stddef.h>

#include "experiment.h"

struct settings settings_derive(const struct options *asked, uint32_t processors)
{
    uint32_t most = asked->processors != 0 ? asked->processors : PROCESSORS_MAX;

    if (most > processors)
        most = processors > 0 ? processors : 1; /* no MADT: this processor alone */
    bool hidden = asked->tick_ms != 0;
    FOR_EACH_EXPERIMENT(e)
        hidden |= e->hides_monitor != NULL && e->hides_monitor();
    return (struct settings){.monitor_hidden = hidden, .processors = most};
}
