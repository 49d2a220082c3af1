# SPDX-License-Identifier: BSD-2-Clause
# identity.py: which process a value of CR3 is, and which thread a stack is. The paper's GTA
# (algorithm 3): CR3 is the process, the stack the thread; names only where the guest gave them.
# Stacks: Linux, arch/x86/include/asm/page_64_types.h (THREAD_SIZE).
import collections
import json
import os

from experiments.shared.analysis.cr3 import PTI_USER_PCID, PTI_USER_TABLE, TABLE_MASK

KERNEL_HALF = 1 << 63
STACK_SHIFT = 12  # of a record's detail
STACK_MASK = (1 << 24) - 1
KERNEL_STACK_PAGES_SHIFT = 2  # THREAD_SIZE: four pages, aligned to as much
USER_STACK_PAGES_SHIFT = 9  # 2 MiB: less than lies between two threads' stacks

Thread = collections.namedtuple("Thread", "side number")


def is_user(record):
    """Says whether the exit came from user space: Linux's kernel is in the upper half."""
    return not record.rip & KERNEL_HALF


def stack_thread(record):
    """Gives the Thread that the stack of a record is, for a record that has a stack. The number is
    that of the aligned area, of the 36 lowest bits of RSP."""
    page = record.detail >> 8 & STACK_MASK
    if is_user(record):
        return Thread("user", page >> USER_STACK_PAGES_SHIFT)
    return Thread("kernel", page >> KERNEL_STACK_PAGES_SHIFT)


def stack_text(thread):
    """Gives a thread's stack as text: the lowest 36 bits of its lowest address."""
    shift = USER_STACK_PAGES_SHIFT if thread.side == "user" else KERNEL_STACK_PAGES_SHIFT
    return f"{thread.side} stack {thread.number << shift + STACK_SHIFT:#x}"


def pti_inferred(processors):
    """Says whether Linux runs with page-table isolation. Takes number -> [Record]. User space then
    runs with bits 12 and 11 of CR3 set; without it no PCID has bit 11."""
    both = PTI_USER_TABLE | PTI_USER_PCID
    return any(
        is_user(record) and record.cr3 & both == both
        for found in processors.values()
        for record in found
    )


def read_names(names):
    """Takes the path of a names file, its parsed JSON, or None; gives the parsed JSON or None.
    Raises ValueError with file and reason where it is not such a file."""
    if not isinstance(names, (str, os.PathLike)):
        return names
    try:
        with open(names, encoding="utf-8") as file:
            found = json.load(file)
        if not isinstance(found.get("tasks"), list):
            raise ValueError("has no list 'tasks'")
        return found
    except (OSError, ValueError, AttributeError) as error:
        raise ValueError(f"{names}: {error}; wanted what 'flowtrace names' writes") from error


class Identity:
    """Processes and threads of one trace."""

    def __init__(self, processors, names=None):
        """Takes number -> [Record], and the parsed names (None: there are none)."""
        names = names or {}
        self.pti = names["pti"] if "pti" in names else pti_inferred(processors)
        self.mask = TABLE_MASK & ~PTI_USER_TABLE if self.pti else TABLE_MASK
        self.processes = {}  # key -> (name, pid)
        self.threads = {}  # Thread -> (name, tid)
        self.kernel_threads = set()
        self.candidates = {}  # key without a name -> [(name, pid)] that it may be
        for task in names.get("tasks", []):
            self.add(task)
        self.match(processors, names.get("tasks", []))

    def match(self, processors, tasks):
        """Names the tables whose address nobody gave, by the processes' maps of memory."""
        from experiments.flow.analysis.match import candidates, matched  # it needs what is above

        names = {task["pid"]: task["comm"] for task in tasks if task["pid"] == task["tid"]}
        found = candidates(processors, tasks, self.key)
        for pid, key in matched(found).items():
            self.processes.setdefault(key, (names.get(pid, f"pid {pid}"), pid))
        taken = {pid for _, pid in self.processes.values()}
        self.candidates = {
            key: [(names.get(pid, f"pid {pid}"), pid) for pid in pids if pid not in taken]
            for key, pids in found.items()
            if key not in self.processes
        }

    def add(self, task):
        """Takes one task of the names file. A process has the name of its first thread."""
        stack = task.get("stack")
        if stack:
            page = int(str(stack), 16) >> STACK_SHIFT & STACK_MASK
            thread = Thread("kernel", page >> KERNEL_STACK_PAGES_SHIFT)
            self.threads[thread] = (task["comm"], task["tid"])
            if not task.get("pgd"):
                self.kernel_threads.add(thread)
        if task.get("pgd"):
            key = self.key(int(str(task["pgd"]), 16))
            if key not in self.processes or task["pid"] == task["tid"]:
                self.processes[key] = (task["comm"], task["pid"])

    def key(self, cr3):
        """Takes a value of CR3; gives the process's key, the address of its table."""
        return cr3 & self.mask

    def process(self, key):
        """Takes a key; gives the process's name and pid (None: not known)."""
        return self.processes.get(key, (f"cr3 {key:#x}", None))
