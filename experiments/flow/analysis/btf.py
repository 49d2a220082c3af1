# SPDX-License-Identifier: BSD-2-Clause
# btf.py: where the members of a kernel's structures are, out of the kernel's own type information.
# Linux, Documentation/bpf/btf.rst. Knows what a path of members needs, and no more.
import struct

MAGIC = 0xEB9F
HEADER = struct.Struct("<HBBIIIII")
TYPE = struct.Struct("<III")
MEMBER = struct.Struct("<III")
ENUMERATOR = struct.Struct("<Ii")
INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT = range(1, 12)
FUNC, FUNC_PROTO, VAR, DATASEC, FLOAT, DECL_TAG, TYPE_TAG, ENUM64 = range(12, 20)
# Bytes after a type's own twelve: in all, and for each of its members.
MORE = {
    INT: (4, 0),
    ARRAY: (12, 0),
    STRUCT: (0, 12),
    UNION: (0, 12),
    ENUM: (0, 8),
    FUNC_PROTO: (0, 8),
    VAR: (4, 0),
    DATASEC: (0, 12),
    DECL_TAG: (4, 0),
    ENUM64: (0, 12),
}
NAMES_ALONE = (TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG)


class Types:
    """The types of one section. `base`: the kernel's, where `data` is a module's."""

    def __init__(self, data, base=None):
        magic, version, _, length, type_off, type_len, str_off, str_len = HEADER.unpack_from(data)
        if magic != MAGIC or version != 1:
            raise ValueError(
                f"BTF: found magic 0x{magic:x} version {version}, wanted "
                f"0x{MAGIC:x} and 1: give /sys/kernel/btf/vmlinux or a .BTF section"
            )
        self.base, self.data = base, data
        self.first = base.end if base else 1
        self.strings_first = base.strings_end if base else 0
        self.strings = data[length + str_off : length + str_off + str_len]
        self.strings_end = self.strings_first + str_len
        self.where = []
        self.by_name = {}
        at = length + type_off
        end = at + type_len
        while at < end:
            name, info, _ = TYPE.unpack_from(data, at)
            kind, count = info >> 24 & 0x1F, info & 0xFFFF
            if kind in (STRUCT, ENUM) and name:
                self.by_name.setdefault((kind, self.text(name)), self.first + len(self.where))
            self.where.append(at)
            more, each = MORE.get(kind, (0, 0))
            at += TYPE.size + more + each * count
        self.end = self.first + len(self.where)

    def text(self, offset):
        if offset < self.strings_first:
            return self.base.text(offset)
        offset -= self.strings_first
        return self.strings[offset : self.strings.index(b"\0", offset)].decode()

    def find(self, kind, name):
        """A type's number. KeyError: no such type."""
        if (kind, name) in self.by_name:
            return self.by_name[kind, name]
        if self.base is None:
            raise KeyError(f"BTF: found no type '{name}'")
        return self.base.find(kind, name)

    def read(self, number):
        """(kind, bit fields there?, third word, members as tuples) of a type."""
        if number < self.first:
            return self.base.read(number)
        at = self.where[number - self.first]
        _, info, third = TYPE.unpack_from(self.data, at)
        kind, count = info >> 24 & 0x1F, info & 0xFFFF
        each = MEMBER if kind in (STRUCT, UNION) else ENUMERATOR if kind == ENUM else None
        members = (
            []
            if each is None
            else [each.unpack_from(self.data, at + TYPE.size + i * each.size) for i in range(count)]
        )
        return kind, info >> 31, third, members

    def plain(self, number):
        """The type that names and qualifiers stand for."""
        kind, _, third, _ = self.read(number)
        return self.plain(third) if kind in NAMES_ALONE else number

    def member(self, number, name):
        """(bits from the structure's start, type) of a member, also of one in a member that has no
        name; None: there is none."""
        kind, fields, _, members = self.read(number)
        if kind not in (STRUCT, UNION):
            return None
        for text, inner, offset in members:
            offset = offset & 0xFFFFFF if fields else offset
            if text and self.text(text) == name:
                return offset, inner
            if not text:
                found = self.member(self.plain(inner), name)
                if found:
                    return offset + found[0], found[1]
        return None

    def offset(self, structure, path):
        """Bytes from the start of `structure` to its member "a.b.c". KeyError: no such one."""
        number, bits = self.find(STRUCT, structure), 0
        for name in path.split("."):
            found = self.member(self.plain(number), name)
            if found is None:
                raise KeyError(f"BTF: struct {structure} has no member '{path}'")
            bits, number = bits + found[0], found[1]
        return bits // 8

    def enumerator(self, name):
        """The value of a constant of some enum. KeyError: no such one."""
        for place in self.where:
            _, info, _ = TYPE.unpack_from(self.data, place)
            if info >> 24 & 0x1F == ENUM:
                for text, value in (
                    ENUMERATOR.unpack_from(self.data, place + TYPE.size + i * 8)
                    for i in range(info & 0xFFFF)
                ):
                    if self.text(text) == name:
                        return value
        if self.base is None:
            raise KeyError(f"BTF: found no constant '{name}'")
        return self.base.enumerator(name)


def section(elf):
    """The contents of an ELF64 file's section .BTF. ValueError: it has none."""
    if elf[:5] != b"\x7fELF\x02":
        raise ValueError("BTF: found no 64-bit ELF file, wanted one: give vmlinux or a module")
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    rows = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    for row in rows:
        start = rows[names][4] + row[0]
        if elf[start : start + 5] == b".BTF\0":
            return elf[row[4] : row[4] + row[5]]
    raise ValueError("BTF: found no section .BTF, wanted a kernel built with CONFIG_DEBUG_INFO_BTF")
