/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a start leaves for the next one, and for who asks why it failed: one line in an EFI
 * variable, and the log in memory that a warm reset keeps, which the next start writes to a file.
 * (UEFI specification, "Variable Services" and "Runtime Services".)
 */
#include <string.h>

#include "bits.h"
#include "boot/boot.h"
#include "console/kept.h"
#include "hypercall.h"
#include "x86.h"

#define FILE_NAME "pmuvisor.log"
#define LINE_MAX 400 /* bytes of the variable */

/* PMUvisorLast-34146edf-63a9-4549-acaa-f03b0b4a4ef8: ASCII, one line. */
static EFI_GUID vendor = {
    0x34146edf, 0x63a9, 0x4549, {0xac, 0xaa, 0xf0, 0x3b, 0x0b, 0x4a, 0x4e, 0xf8}};
static CHAR16 name[] = L"PMUvisorLast";
#define ATTRIBUTES                                                                                 \
    (EFI_VARIABLE_NON_VOLATILE | EFI_VARIABLE_BOOTSERVICE_ACCESS | EFI_VARIABLE_RUNTIME_ACCESS)

void last_note(const char *line)
{
    static char text[LINE_MAX]; /* a stack may be short, here */
    static bool failed, busy; /* busy: firmware itself has faulted in here */
    uint64_t cr3 = read_cr3(), cr4 = read_cr4();
    UINTN size = format_text(text, sizeof(text), "PMUvisor " PMUVISOR_VERSION_TEXT ": %s\n", line);

    if (firmware.page_tables != 0 && (cr4 & CR4_LA57) != (firmware.cr4 & CR4_LA57))
        return; /* its tables have five levels, and are of no use with four */
    if (busy)
        return;
    busy = true;
    /* Firmware is compiled for a processor with SSE, and mapped by its own tables alone. */
    if (firmware.page_tables != 0) {
        write_cr4(cr4 | CR4_OSFXSR | CR4_OSXMMEXCPT);
        write_cr3(firmware.page_tables);
    }
    EFI_STATUS status = firmware.system->RuntimeServices->SetVariable(name, &vendor, ATTRIBUTES,
                                                                      size, text);
    if (firmware.page_tables != 0) {
        write_cr3(cr3);
        write_cr4(cr4);
    }
    busy = false;
    if (EFI_ERROR(status) && !failed) {
        failed = true;
        log_printf("pmuvisor: firmware does not take the variable PMUvisorLast (EFI status 0x%lx): "
                   "what happened last is not kept there\n", status);
    }
}

void last_go_on(struct boot_info *bi)
{
    firmware.page_tables = read_cr3();
    firmware.cr4 = read_cr4();
    bi->note = last_note;
}

/* The line; 0 bytes: there is none. */
static UINTN read_line(char *text)
{
    UINTN size = LINE_MAX;
    EFI_STATUS status =
        firmware.system->RuntimeServices->GetVariable(name, &vendor, NULL, &size, text);

    return EFI_ERROR(status) ? 0 : size;
}

/* Deleting what is not there writes nothing. */
void last_forget(void)
{
    (void)firmware.system->RuntimeServices->SetVariable(name, &vendor, ATTRIBUTES, 0, NULL);
}

static bool is_kept(uint64_t address)
{
    return kept_look((const struct log_ring *)(uintptr_t)address) != KEPT_NONE;
}

static struct range bytes(const char *text, uint64_t length)
{
    return (struct range){(uintptr_t)text, length};
}

void last_save(void)
{
    static const char damaged[] = "The memory that held this log was changed since: parts may be "
                                  "wrong.\n";
    static char line[LINE_MAX];
    struct kept_piece pieces[2];
    UINTN size = read_line(line);
    struct log_ring *ring = (struct log_ring *)(uintptr_t)memory_find(
        POOL_ALIGNMENT, POOL_LOG_OFFSET, sizeof(*ring), is_kept);

    if (size != 0)
        log_printf("the last start left: %.*s", (int)size, line);
    if (ring == NULL)
        return;
    kept_text(ring, pieces);
    const struct range parts[] = {
        bytes(line, size),
        bytes(damaged, kept_look(ring) == KEPT_DAMAGED ? sizeof(damaged) - 1 : 0),
        bytes(pieces[0].text, pieces[0].length), bytes(pieces[1].text, pieces[1].length)};
    bool saved = file_save(FILE_NAME, parts, LENGTH_OF(parts));
    log_printf(saved ? "the last run's log is in " FILE_NAME "\n"
                     : "the last run's log is in memory and cannot be written to " FILE_NAME
                       ": free some space on the volume of pmuvisor.efi\n");
    if (saved)
        kept_end(ring);
    memory_give_back((uintptr_t)ring, sizeof(*ring));
}
