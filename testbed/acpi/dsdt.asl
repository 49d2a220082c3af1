// SPDX-License-Identifier: BSD-2-Clause
//
// The differentiated system description of the emulated PC (i440FX, PIIX3, PIIX4 power management):
// what Linux needs for the IO-APIC, power-off, and the legacy devices. ACPI Specification, "ASL
// Reference"; PIIX4 data sheet for the ports.

DefinitionBlock ("dsdt.aml", "DSDT", 2, "PMUV", "TESTBED", 1)
{
    // SLP_TYP 0 turns this machine off, 1 suspends it.
    Name (\_S3, Package () { 1, 1, 0, 0 })
    Name (\_S5, Package () { 0, 0, 0, 0 })

    // The guest says which interrupt controller it uses: 0 the PIC, 1 the IO-APIC.
    Name (PICM, 0)
    Method (\_PIC, 1, NotSerialized)
    {
        PICM = Arg0
    }

    Scope (\_SB)
    {
        Device (PCI0)
        {
            Name (_HID, EisaId ("PNP0A03"))
            Name (_UID, 0)

            Name (_CRS, ResourceTemplate ()
            {
                WordBusNumber (ResourceProducer, MinFixed, MaxFixed, PosDecode,
                    0, 0x0000, 0x00FF, 0, 0x0100)
                IO (Decode16, 0x0CF8, 0x0CF8, 1, 8)
                WordIO (ResourceProducer, MinFixed, MaxFixed, PosDecode, EntireRange,
                    0, 0x0000, 0x0CF7, 0, 0x0CF8)
                WordIO (ResourceProducer, MinFixed, MaxFixed, PosDecode, EntireRange,
                    0, 0x0D00, 0xFFFF, 0, 0xF300)
                DWordMemory (ResourceProducer, PosDecode, MinFixed, MaxFixed, Cacheable, ReadWrite,
                    0, 0x000A0000, 0x000BFFFF, 0, 0x00020000)
                DWordMemory (ResourceProducer, PosDecode, MinFixed, MaxFixed, NonCacheable,
                    ReadWrite, 0, 0x80000000, 0xFEBFFFFF, 0, 0x7EC00000)
            })

            // The IO-APIC's inputs: 16 + ((slot + pin) & 3).
            Name (APIR, Package ()
            {
                Package () { 0x0000FFFF, 0, 0, 16 },
                Package () { 0x0000FFFF, 1, 0, 17 },
                Package () { 0x0000FFFF, 2, 0, 18 },
                Package () { 0x0000FFFF, 3, 0, 19 },
                Package () { 0x0001FFFF, 0, 0, 17 },
                Package () { 0x0001FFFF, 1, 0, 18 },
                Package () { 0x0001FFFF, 2, 0, 19 },
                Package () { 0x0001FFFF, 3, 0, 16 },
                Package () { 0x0002FFFF, 0, 0, 18 },
                Package () { 0x0002FFFF, 1, 0, 19 },
                Package () { 0x0002FFFF, 2, 0, 16 },
                Package () { 0x0002FFFF, 3, 0, 17 },
                Package () { 0x0003FFFF, 0, 0, 19 },
                Package () { 0x0003FFFF, 1, 0, 16 },
                Package () { 0x0003FFFF, 2, 0, 17 },
                Package () { 0x0003FFFF, 3, 0, 18 },
                Package () { 0x0004FFFF, 0, 0, 16 },
                Package () { 0x0004FFFF, 1, 0, 17 },
                Package () { 0x0004FFFF, 2, 0, 18 },
                Package () { 0x0004FFFF, 3, 0, 19 },
                Package () { 0x0005FFFF, 0, 0, 17 },
                Package () { 0x0005FFFF, 1, 0, 18 },
                Package () { 0x0005FFFF, 2, 0, 19 },
                Package () { 0x0005FFFF, 3, 0, 16 }
            })
            Method (_PRT, 0, NotSerialized)
            {
                Return (APIR)
            }

            Device (ISA)
            {
                Name (_ADR, 0x00010000)

                Device (RTC)
                {
                    Name (_HID, EisaId ("PNP0B00"))
                    Name (_CRS, ResourceTemplate ()
                    {
                        IO (Decode16, 0x0070, 0x0070, 1, 2)
                        IRQNoFlags () { 8 }
                    })
                }

                Device (KBD)
                {
                    Name (_HID, EisaId ("PNP0303"))
                    Name (_CRS, ResourceTemplate ()
                    {
                        IO (Decode16, 0x0060, 0x0060, 1, 1)
                        IO (Decode16, 0x0064, 0x0064, 1, 1)
                        IRQNoFlags () { 1 }
                    })
                }

                Device (COM1)
                {
                    Name (_HID, EisaId ("PNP0501"))
                    Name (_UID, 1)
                    Name (_CRS, ResourceTemplate ()
                    {
                        IO (Decode16, 0x03F8, 0x03F8, 1, 8)
                        IRQNoFlags () { 4 }
                    })
                }
            }
        }
    }
}
