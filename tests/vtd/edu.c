/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The device "edu": found by its PCI ids through the configuration ports, driven by its registers.
 */
#include "edu.h"

#include "mm/mmio.h"
#include "x86.h"

#define PCI_ADDRESS 0xcf8
#define PCI_DATA 0xcfc
#define PCI_ENABLE (1u << 31)
#define PCI_ID 0x00
#define PCI_COMMAND 0x04
#define PCI_COMMAND_MEMORY (1u << 1)
#define PCI_COMMAND_MASTER (1u << 2)
#define PCI_BAR0 0x10
#define PCI_BAR_ADDRESS 0xfffffff0u
#define PCI_DEVICES 32
#define PCI_DEVICE_SHIFT 11

#define EDU_ID 0x11e81234u /* device and vendor */
#define EDU_SOURCE 0x80
#define EDU_DESTINATION 0x88
#define EDU_COUNT 0x90
#define EDU_COMMAND 0x98
#define EDU_RUN 1u
#define EDU_TO_MEMORY 2u
#define EDU_BUFFER 0x40000
#define EDU_READS 100000000u /* far more than the 100 ms that it waits for each transfer */

static uint32_t function; /* bus 0, device and function 0 */
static uint64_t registers;

static uint32_t pci_read(uint32_t device, uint32_t offset)
{
    outl(PCI_ADDRESS, PCI_ENABLE | device << PCI_DEVICE_SHIFT | offset);
    return inl(PCI_DATA);
}

bool edu_find(void)
{
    for (uint32_t device = 0; device < PCI_DEVICES; device++) {
        if (pci_read(device, PCI_ID) != EDU_ID)
            continue;
        uint32_t command = pci_read(device, PCI_COMMAND);
        outl(PCI_DATA, command | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
        registers = pci_read(device, PCI_BAR0) & PCI_BAR_ADDRESS;
        function = device << 3;
        return true;
    }
    return false;
}

uint16_t edu_requester(void) { return (uint16_t)function; }

static bool transfer(uint64_t source, uint64_t destination, uint32_t bytes, uint32_t direction)
{
    mmio_write_64(registers + EDU_SOURCE, source);
    mmio_write_64(registers + EDU_DESTINATION, destination);
    mmio_write_64(registers + EDU_COUNT, bytes);
    mmio_write_64(registers + EDU_COMMAND, EDU_RUN | direction);
    for (uint32_t i = 0; i < EDU_READS; i++)
        if (!(mmio_read_64(registers + EDU_COMMAND) & EDU_RUN))
            return true;
    return false;
}

bool edu_read(uint64_t memory, uint32_t bytes) { return transfer(memory, EDU_BUFFER, bytes, 0); }

bool edu_write(uint64_t memory, uint32_t bytes)
{
    return transfer(EDU_BUFFER, memory, bytes, EDU_TO_MEMORY);
}
