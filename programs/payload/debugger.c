/* SPDX-License-Identifier: BSD-2-Clause
 * debugger.c: the job `ptrace`: a debugger and pieces of code, each run with watchpoints,
 * breakpoints, single steps, block steps and combinations of them. A line for each says where the
 * code stopped, by which signal and with which DR6. Some pieces exit to a hypervisor. Some touch
 * the watched word by MOV SS, whose debug exception has to wait for the next instruction.
 * SDM Vol. 3, "Debug Registers"; "Single-Stepping on Branches"; "Masking Exceptions and Interrupts
 * When Switching Stacks". ptrace(2).
 */
#include "payload.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* One shared mapping: code, data, stack. */
#define CODE_AT 0x10000000ul
#define DATA_AT (CODE_AT + 0x1040)
#define STACK_AT (CODE_AT + 0x3000)
#define MAPPED_BYTES 0x3000
#define DATA_WORD 0x2b /* a selector that MOV SS takes: Linux's __USER_DS */
#define STOPS_MAX 24
#define DR6_NONE 0xffff0ff0ul
#define DR7_WATCH (1ul | 3ul << 16 | 3ul << 18) /* L0; loads and stores of four bytes */
#define DR7_BREAK (1ul << 2)                    /* L1; the instruction */
#define FLAGS_SHOWN 0x10100ul                   /* RF, TF */
#define CODE(bytes) bytes, sizeof(bytes) - 1
#define MOV_SS "\x41\x8e\x14\x24" /* mov ss, [r12] */

static const struct piece {
    const char *name, *code;
    unsigned length, subject; /* where the breakpoint is */
} pieces[] = {
    {"cpuid", CODE("\x31\xc0\x0f\xa2"), 2},
    {"jump-cpuid", CODE("\xeb\x01\x90\x0f\xa2"), 3},
    /* call 1f; jmp 2f; 1: cpuid; ret; 2: */
    {"call-cpuid", CODE("\xe8\x02\x00\x00\x00\xeb\x03\x0f\xa2\xc3"), 7},
    /* mov esi, 3; 1: xor eax, eax; cpuid; dec esi; jnz 1b */
    {"loop-cpuid", CODE("\xbe\x03\x00\x00\x00\x31\xc0\x0f\xa2\xff\xce\x75\xf8"), 7},
    {"icebp", CODE("\xf1\x90"), 0},
    {"rdtscp", CODE("\x0f\x01\xf9\x90"), 0},
    {"xgetbv", CODE("\x31\xc9\x0f\x01\xd0"), 2},
    {"store", CODE("\x41\x89\x04\x24\x90"), 0},
    {"load", CODE("\x41\x8b\x04\x24\x90"), 0},
    {"store-cpuid", CODE("\x41\x89\x04\x24\x0f\xa2"), 4},
    {"store-part", CODE("\x41\x89\x44\x24\xfe\x90"), 0}, /* mov [r12 - 2], eax */
    {"exchange", CODE("\x41\x87\x04\x24\x90"), 0},
    /* lea rdi, [r12 - 2]; lea rsi, [r12 + 64]; mov ecx, 4; rep movsb */
    {"rep-movsb", CODE("\x49\x8d\x7c\x24\xfe\x49\x8d\x74\x24\x40\xb9\x04\x00\x00\x00\xf3\xa4"), 15},
    {"mov-ss-nop", CODE(MOV_SS "\x90\x90"), 4},
    {"mov-ss-cpuid", CODE(MOV_SS "\x0f\xa2\x90"), 4},
    {"mov-ss-int3", CODE(MOV_SS "\xcc\x90"), 4},
    {"mov-ss-syscall", CODE("\xb8\x27\x00\x00\x00" MOV_SS "\x0f\x05\x90"), 9}, /* getpid */
    {"mov-ss-int80", CODE("\xb8\x14\x00\x00\x00" MOV_SS "\xcd\x80\x90"), 9},   /* the same */
    {"mov-ss-in", CODE(MOV_SS "\xe4\x61"), 4},                                 /* a fault */
    {"mov-ss-twice", CODE(MOV_SS MOV_SS "\x0f\xa2\x90"), 8},
    /* pushfq; or dword [rsp], TF; popfq; nop; cpuid */
    {"popf-tf", CODE("\x9c\x81\x0c\x24\x00\x01\x00\x00\x9d\x90\x0f\xa2"), 10},
    /* mov rax, rsp; push SS, RSP, RFLAGS with TF, CS and the address behind; iretq; cpuid */
    {"iret-tf",
     CODE("\x48\x89\xe0\x6a\x2b\x50\x9c\x81\x0c\x24\x00\x01\x00\x00\x6a\x33"
          "\x48\x8d\x0d\x03\x00\x00\x00\x51\x48\xcf\x0f\xa2"),
     26},
    {"syscall", CODE("\xb8\x27\x00\x00\x00\x0f\x05\x90"), 5},
    {"rdmsr", CODE("\x0f\x32"), 0},
};
static const char last[] = "\x0f\x0b"; /* UD2 ends each piece */

static const struct mode {
    const char *name;
    enum __ptrace_request go;
    unsigned long dr7;
} modes[] = {
    {"watch", PTRACE_CONT, DR7_WATCH},
    {"break", PTRACE_CONT, DR7_BREAK},
    {"step", PTRACE_SINGLESTEP, 0},
    {"block", PTRACE_SINGLEBLOCK, 0},
    {"watch-step", PTRACE_SINGLESTEP, DR7_WATCH},
    {"watch-block", PTRACE_SINGLEBLOCK, DR7_WATCH},
    {"break-step", PTRACE_SINGLESTEP, DR7_BREAK},
    {"all-step", PTRACE_SINGLESTEP, DR7_WATCH | DR7_BREAK},
};

static int debug_register_set(pid_t child, unsigned n, unsigned long value)
{
    size_t at = offsetof(struct user, u_debugreg) + n * sizeof(value);

    return ptrace(PTRACE_POKEUSER, child, at, value) == 0 ? 0 : -errno;
}

/* Prints a stop. True when the piece is over: by UD2, or by another fault. */
static bool print_stop(pid_t child, int signal, bool first)
{
    struct user_regs_struct regs;
    siginfo_t info = {0};
    size_t dr6 = offsetof(struct user, u_debugreg) + 6 * sizeof(long);
    long met = ptrace(PTRACE_PEEKUSER, child, dr6, 0);

    ptrace(PTRACE_GETREGS, child, 0, &regs);
    ptrace(PTRACE_GETSIGINFO, child, 0, &info);
    debug_register_set(child, 6, DR6_NONE);
    printf("%s%d/%d@%lld/%lx/%llx", first ? "" : ",", signal, info.si_code,
           (long long)(regs.rip - CODE_AT), (unsigned long)met ^ DR6_NONE,
           regs.eflags & FLAGS_SHOWN);
    return signal != SIGTRAP;
}

static int run_piece(pid_t child, const struct user_regs_struct *begin, const struct piece *piece,
                     const struct mode *mode)
{
    int status = 0, error, stops = 0;

    memset((void *)CODE_AT, 0x90, 64);
    memcpy((void *)CODE_AT, piece->code, piece->length);
    memcpy((char *)CODE_AT + piece->length, last, sizeof(last) - 1);
    *(uint32_t *)DATA_AT = DATA_WORD;
    if (ptrace(PTRACE_SETREGS, child, 0, begin) != 0)
        return -errno;
    if ((error = debug_register_set(child, 7, 0)) != 0 ||
        (error = debug_register_set(child, 0, DATA_AT)) != 0 ||
        (error = debug_register_set(child, 1, CODE_AT + piece->subject)) != 0 ||
        (error = debug_register_set(child, 6, DR6_NONE)) != 0 ||
        (error = debug_register_set(child, 7, mode->dr7)) != 0) {
        return error;
    }
    printf("ptrace: piece=%s mode=%s stops=", piece->name, mode->name);
    for (bool over = false; !over && stops < STOPS_MAX; stops++) {
        if (ptrace(mode->go, child, 0, 0) != 0 || waitpid(child, &status, 0) != child ||
            !WIFSTOPPED(status)) {
            printf(" error=\"status %#x\"\n", (unsigned)status);
            return -ECHILD;
        }
        over = print_stop(child, WSTOPSIG(status), stops == 0);
    }
    printf("\n");
    return 0;
}

JOB(ptrace)
{
    struct user_regs_struct begin;
    int status, error = 0;
    pid_t child;

    if (mmap((void *)CODE_AT, MAPPED_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
             MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != (void *)CODE_AT) {
        printf("ptrace: error=\"no memory at %#lx: %s\"\n", CODE_AT, strerror(errno));
        return 1;
    }
    fflush(stdout);
    child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        _exit(1);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status) ||
        ptrace(PTRACE_GETREGS, child, 0, &begin) != 0) {
        error = -ECHILD;
    }
    begin.rip = CODE_AT;
    begin.rsp = STACK_AT;
    begin.r12 = DATA_AT;
    begin.rax = DATA_WORD;
    begin.rcx = 0;
    begin.orig_rax = ~0ull; /* no system call is to be begun again */
    for (size_t p = 0; error == 0 && p < sizeof(pieces) / sizeof(pieces[0]); p++)
        for (size_t m = 0; error == 0 && m < sizeof(modes) / sizeof(modes[0]); m++)
            error = run_piece(child, &begin, &pieces[p], &modes[m]);
    if (error != 0)
        printf("ptrace: error=\"%s\"\n", strerror(-error));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    munmap((void *)CODE_AT, MAPPED_BYTES);
    return error != 0;
}
