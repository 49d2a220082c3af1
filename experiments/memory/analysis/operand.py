# SPDX-License-Identifier: BSD-2-Clause
# operand.py: how many bytes an instruction accesses in memory, by capstone (Debian's
# python3-capstone) and, where that has no word or the wrong one, by the SDM's. Whether it reads or
# writes the record knows from the processor; capstone's answer to that is often wrong, and not
# used.
import collections
import functools

from experiments.memory.analysis import xstate

NEEDS = "python3-capstone is missing for this Python; install it, and use /usr/bin/python3"
CODE_BYTES = 15

# `read`, `write`: bytes of one read or of one write; 0: not known, and `why` says why. `modifies`:
# what it writes it has read. `family`: of xstate.py.
Operand = collections.namedtuple("Operand", "text length read write modifies why family")


class NoDecoder(Exception):
    """The text says what to install."""


STACK = 8  # of 64-bit mode, whatever REX.W says
# Of one operand where capstone has none or another: mnemonic -> bytes.
SIZES = {
    "xlatb": 1,
    "comiss": 4,
    "ucomiss": 4,
    "vcomiss": 4,
    "vucomiss": 4,
    "comisd": 8,
    "ucomisd": 8,
    "vcomisd": 8,
    "vucomisd": 8,
    "fnstsw": 2,
    "sldt": 2,
    "str": 2,
    "smsw": 2,
    "lmsw": 2,
    "lldt": 2,
    "ltr": 2,
    "sgdt": 10,
    "sidt": 10,
    "lgdt": 10,
    "lidt": 10,
    "invpcid": 16,
    "invept": 16,
    "invvpid": 16,
}
FAR = ("lcall", "ljmp", "lss", "lfs", "lgs")
IRET = ("iret", "iretd", "iretq")
# These read a descriptor, and a selector before it where that is not in a register.
OF_SELECTOR, DESCRIPTOR = ("lar", "lsl", "verr", "verw"), 8
CACHE = ("clflush", "clflushopt", "clwb", "cldemote", "prefetch")
FPU_ENVIRONMENT, FPU_STATE = (28, 14), (108, 94)  # SDM Vol. 1, "x87 FPU Control Instructions"
ENVIRONMENT = ("fnstenv", "fldenv")
STATE = ("fnsave", "frstor")
STACK_ONLY = ("push", "pushf", "pushfq", "call", "enter")
FROM_STACK = ("pop", "popf", "popfq", "ret", "leave")
# What reads its operand and writes it. The processor need not say both.
MODIFY = {
    "add",
    "adc",
    "sub",
    "sbb",
    "and",
    "or",
    "xor",
    "inc",
    "dec",
    "neg",
    "not",
    "rol",
    "ror",
    "rcl",
    "rcr",
    "shl",
    "shr",
    "sal",
    "sar",
    "shld",
    "shrd",
    "bts",
    "btr",
    "btc",
    "xchg",
    "xadd",
    "cmpxchg",
    "cmpxchg8b",
    "cmpxchg16b",
}
# Of AVX-512 what capstone 4 does not decode and the C library has: (map, opcode) -> name without
# its element's letter. They read a whole vector, or one element for all. SDM Vol. 2, "Intel AVX-512
# Encoding".
EVEX = {
    (3, 0x3E): "vpcmpu",
    (3, 0x3F): "vpcmp",
    (3, 0x1E): "vpcmpu",
    (3, 0x1F): "vpcmp",
    (3, 0x25): "vpternlog",
    (2, 0xB4): "vpmadd52lu",
    (2, 0xB5): "vpmadd52hu",
}
BYTES_AND_WORDS = (0x3E, 0x3F)
PREFIX_OPERAND = 0x66
REX_W = 8


@functools.cache
def decoder():
    try:
        import capstone
        from capstone import x86_const
    except ImportError:
        raise NoDecoder(NEEDS) from None
    found = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    found.detail = True
    segments = {getattr(x86_const, f"X86_REG_{name}S") for name in "CDEFGS"}
    return found, x86_const, segments


@functools.lru_cache(1 << 16)
def decode(code, rip):
    """Takes the bytes at RIP, of 64-bit mode. Gives an Operand. Raises NoDecoder."""
    found = next(decoder()[0].disasm(code, rip, 1), None)
    if found is None and code[:1] == b"\x62" and len(code) == CODE_BYTES:
        return evex(code)
    if found is None:
        return Operand(
            "",
            0,
            0,
            0,
            False,
            "not decoded" if len(code) == CODE_BYTES else "its code is not known",
            None,
        )
    text = f"{found.mnemonic} {found.op_str}".strip()
    name = found.mnemonic.split()[-1]
    if name in ("call", "jmp") and is_far(found):
        name = f"l{name}"
        text = f"{name} {found.op_str}"
    family = xstate.family(name)
    if family:
        return Operand(text, found.size, 0, 0, False, None, family)
    why = several(found, name)
    read, write = (0, 0) if why else sizes(found, name)
    if not why and not read and not write:
        why = f"{name}: no operand in memory"
    return Operand(text, found.size, read, write, name in MODIFY, why, None)


def is_far(found):
    """FF /3 and FF /5, SDM Vol. 2, "CALL" and "JMP". With an offset of 32 bits capstone 5 calls
    them near."""
    return found.opcode[0] == 0xFF and found.modrm >> 3 & 7 in (3, 5)


def evex(code):
    """Gives the Operand of an instruction in EVEX. Its length is not looked for."""
    wide, masked, broadcast = code[2] >> 7, code[3] & 7, code[3] >> 4 & 1
    name = EVEX.get((code[1] & 7, code[4]))
    if name is None or code[5] >> 6 == 3:
        return Operand("", 0, 0, 0, False, "not decoded", None)
    name += ("bw" if code[4] in BYTES_AND_WORDS else "dq")[wide]
    if masked:
        return Operand(name, 0, 0, 0, False, f"{name}: masked", None)
    size = 4 << wide if broadcast else 16 << (code[3] >> 5 & 3)
    return Operand(name, 0, size, 0, False, None, None)


def several(found, name):
    """Gives why one size cannot be said of it, or None."""
    if "{k" in found.op_str or "maskmov" in name or "gather" in name or "scatter" in name:
        return f"{name}: masked"
    if name.startswith(CACHE):
        return f"{name}: no data"
    if name == "enter" and found.operands[1].imm & 31:
        return "enter: several words"
    if name in IRET:
        return f"{name}: its frame, whose words a processor reads in an order of its own"
    return None


def far_bytes(found):
    """A far pointer: SDM Vol. 2, "CALL" and "JMP", m16:16, m16:32, m16:64."""
    if found.rex & REX_W:
        return 10
    return 4 if found.prefix[2] == PREFIX_OPERAND else 6


def sizes(found, name):
    """Gives the bytes of a read and of a write; 0: there is none, or its size is not known."""
    _, const, segments = decoder()
    short = found.prefix[2] == PREFIX_OPERAND
    memory = [operand.size for operand in found.operands if operand.type == const.X86_OP_MEM]
    word = 2 if short and name not in ("call", "ret") else STACK
    if name in FAR:
        return (far_bytes(found) if memory else 0), 0
    if name in ENVIRONMENT or name in STATE:
        size = (FPU_ENVIRONMENT if name in ENVIRONMENT else FPU_STATE)[short]
        return size, size
    if name in STACK_ONLY:
        return (word if memory and name in ("push", "call") else 0), word
    if name in FROM_STACK:
        return word, (word if memory else 0)
    if name == "mov" and any(
        operand.type == const.X86_OP_REG and operand.reg in segments for operand in found.operands
    ):
        return (2, 2) if memory else (0, 0)
    if name in OF_SELECTOR:
        return (2 if memory else DESCRIPTOR), 0
    size = SIZES.get(name, memory[0] if memory else 0)
    if name == "punpckldq" or name == "punpcklwd" or name == "punpcklbw":
        size = min(size, 4) if "mm" in found.op_str and "xmm" not in found.op_str else size
    return size, size
