/* SPDX-License-Identifier: BSD-2-Clause
 *
 * REP STOS and REP MOVS have so many iterations that root mode executes them itself. The first
 * iteration in a page is stepped, and shows what root mode may do afterwards. The registers confirm
 * which instruction it was, and the processor has translated the target's page for a write. An
 * element that crosses a page's end shows nothing about the next page, so such an element ends the
 * chunk. Root mode looks up the source itself, with the guest's rights. Then it executes all
 * iterations up to a page's end at once, and makes one record of them.
 *
 * Root mode never finishes the instruction. When RCX is 0, the guest executes the instruction once
 * more. This last execution accesses nothing, and retires the instruction. So only counts of
 * accesses differ from those of a native run. SDM Vol. 2, "REP/REPE/REPZ/REPNE/REPNZ"; Vol. 1,
 * "Fast-String Operation".
 */
#include "experiments/memory/hypervisor/memory_record.h"

#define PREFIX_OPERAND_SIZE 0x66
#define PREFIX_REPNE 0xf2
#define PREFIX_REP 0xf3
#define REX_MASK 0xf0
#define REX 0x40
#define REX_W 8
#define OPCODE_MOVS 0xa4 /* bit 0 is 0 for bytes */
#define OPCODE_STOS 0xaa
#define DR7_ENABLES BITS(7, 0)

struct string {
    bool moves;    /* MOVS; else STOS */
    uint32_t size; /* bytes of an element */
};

/* Returns whether the code is REP STOS or REP MOVS. Other prefixes change addresses, so
 * instructions with other prefixes are stepped. */
static bool decode_string(const uint8_t *code, struct string *out)
{
    bool rep = false, narrow = false, wide = false;

    for (; *code == PREFIX_REP || *code == PREFIX_REPNE || *code == PREFIX_OPERAND_SIZE; code++) {
        rep |= *code != PREFIX_OPERAND_SIZE;
        narrow |= *code == PREFIX_OPERAND_SIZE;
    }
    if ((*code & REX_MASK) == REX)
        wide = *code++ & REX_W;
    out->moves = (*code & ~1) == OPCODE_MOVS;
    out->size = !(*code & 1) ? 1 : wide ? 8 : narrow ? 2 : 4;
    return rep && (out->moves || (*code & ~1) == OPCODE_STOS);
}

/* Executes the guest's own instruction, so that source and destination may overlap as they do in
 * the guest. */
static void do_string(const struct string *s, void *to, const void *from, uint64_t count,
                      uint64_t rax)
{
#define DO(name)                                                                                   \
    __asm__ volatile("rep " name : "+D"(to), "+S"(from), "+c"(count) : "a"(rax) : "memory")
    switch (s->size | (s->moves ? 16 : 0)) {
    case 1:
        DO("stosb");
        break;
    case 2:
        DO("stosw");
        break;
    case 4:
        DO("stosl");
        break;
    case 8:
        DO("stosq");
        break;
    case 16 | 1:
        DO("movsb");
        break;
    case 16 | 2:
        DO("movsw");
        break;
    case 16 | 4:
        DO("movsl");
        break;
    default:
        DO("movsq");
        break;
    }
#undef DO
}

static uint64_t elements_left(uint64_t address, uint32_t size)
{
    return (PAGE_SIZE - address % PAGE_SIZE) / size;
}

static uint64_t minimum(uint64_t count, uint64_t limit) { return count < limit ? count : limit; }

static bool is_next_in_page(uint64_t now, uint64_t was, uint32_t size)
{
    return now == was + size && now / PAGE_SIZE == was / PAGE_SIZE;
}

void memory_do_string(struct cpu *cpu, const struct trace_memory *stepped, uint64_t rsi)
{
    struct string s;
    const void *from = NULL;
    uint64_t source = cpu->gpr[GPR_RSI], target = cpu->gpr[GPR_RDI];

    if (stepped->code_bytes < sizeof(stepped->code) || !decode_string(stepped->code, &s) ||
        stepped->rip != vmcs_read_natural(VMCS_GUEST_RIP) ||
        !is_next_in_page(target, stepped->gla, s.size) ||
        (s.moves ? !is_next_in_page(source, rsi, s.size) : source != rsi) ||
        !guest_in_64_bit_mode() || /* the guest may have left 64-bit mode meanwhile */
        vmcs_read_natural(VMCS_GUEST_RFLAGS) & RFLAGS_TF ||
        vmcs_read_natural(VMCS_GUEST_DR7) & DR7_ENABLES)
        return;
    uint64_t count = minimum(cpu->gpr[GPR_RCX], elements_left(target, s.size));
    if (s.moves) {
        count = minimum(count, elements_left(source, s.size));
        from = memory_find_readable(cpu, source);
        if (from == NULL)
            return;
    }
    if (count == 0)
        return;
    struct trace_memory *record = memory_record_begin(cpu, TRACE_WRITE | TRACE_CHUNK, target,
                                                      stepped->gpa + s.size);
    do_string(&s, memory_host_address(record->gpa), from, count, cpu->gpr[GPR_RAX]);
    cpu->gpr[GPR_RCX] -= count;
    cpu->gpr[GPR_RDI] += count * s.size;
    if (s.moves)
        cpu->gpr[GPR_RSI] += count * s.size;
    record->detail = s.size;
    record->bytes = (uint32_t)(count * s.size);
    memory_record_publish(cpu);
}
