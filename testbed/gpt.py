#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
# gpt.py: makes of a FAT volume's image a disk's: a GUID partition table and the volume as its EFI
# system partition. Writes DISK alone. UEFI, "GUID Partition Table (GPT) Disk Layout".
# Python's own library is enough, so that a stick wants no partitioning tool installed.
import hashlib
import shutil
import struct
import sys
import uuid
import zlib

BLOCK = 512
MARGIN = 2048  # blocks before and after the volume: 1 MiB, as partitioning tools align
ENTRIES, ENTRY_BYTES = 128, 128
TABLE_BLOCKS = ENTRIES * ENTRY_BYTES // BLOCK
HEADER_BYTES = 92
ESP = uuid.UUID("c12a7328-f81f-11d2-ba4b-00a0c93ec93b")
PROTECTIVE = 0xEE
NO_CHS = b"\xfe\xff\xff"


def mbr(*partitions):
    """A master boot record. Of each partition: type, first block, blocks, and the first and the
    last one by cylinder, head and sector, if those are to say something. UEFI, "Legacy Master Boot
    Record (MBR)".
    """

    def entry(kind, first, count, begin=NO_CHS, end=NO_CHS):
        return struct.pack("<B3sB3sII", 0, begin, kind, end, first, count)

    return bytes(446) + b"".join(entry(*one) for one in partitions).ljust(64, b"\0") + b"\x55\xaa"


def protective_mbr(blocks):
    """For who knows no GPT: one partition of an unknown type on the whole disk."""
    return mbr((PROTECTIVE, 1, min(blocks - 1, 0xFFFFFFFF), b"\0\2\0", b"\xff\xff\xff"))


def header(mine, other, table, blocks, disk, entries):
    """The one at block `mine`; `table` is the block of its entries."""

    def packed(crc):
        return struct.pack(
            "<8sIIIIQQQQ16sQIII",
            b"EFI PART",
            0x10000,
            HEADER_BYTES,
            crc,
            0,
            mine,
            other,
            2 + TABLE_BLOCKS,
            blocks - 2 - TABLE_BLOCKS,
            disk.bytes_le,
            table,
            ENTRIES,
            ENTRY_BYTES,
            zlib.crc32(entries),
        )

    return packed(zlib.crc32(packed(0))).ljust(BLOCK, b"\0")


def make(volume, disk):
    digest = hashlib.sha256()
    while chunk := volume.read(1 << 20):
        digest.update(chunk)
    size = volume.tell()
    if size == 0 or size % BLOCK:
        raise ValueError(f"{volume.name}: {size} bytes, wanted a multiple of {BLOCK}")
    # The same volume makes the same disk.
    disk_id, partition_id = (
        uuid.UUID(bytes=digest.digest()[at : at + 16], version=4) for at in (0, 16)
    )
    first, last = MARGIN, MARGIN + size // BLOCK - 1
    blocks = last + 1 + MARGIN
    entries = struct.pack(
        "<16s16sQQQ72s",
        ESP.bytes_le,
        partition_id.bytes_le,
        first,
        last,
        0,
        "PMUvisor".encode("utf-16-le"),
    ).ljust(ENTRIES * ENTRY_BYTES, b"\0")
    disk.write(protective_mbr(blocks))
    disk.write(header(1, blocks - 1, 2, blocks, disk_id, entries))
    disk.write(entries)
    disk.seek(first * BLOCK)
    volume.seek(0)
    shutil.copyfileobj(volume, disk, 1 << 20)
    disk.seek((blocks - 1 - TABLE_BLOCKS) * BLOCK)
    disk.write(entries)
    disk.write(header(blocks - 1, 1, blocks - 1 - TABLE_BLOCKS, blocks, disk_id, entries))


def main():
    if len(sys.argv) != 3:
        print("gpt.py: usage: gpt.py VOLUME DISK", file=sys.stderr)
        return 2
    try:
        with open(sys.argv[1], "rb") as volume, open(sys.argv[2], "wb") as disk:
            make(volume, disk)
    except (OSError, ValueError) as trouble:
        print(f"gpt.py: {trouble}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
