# SPDX-License-Identifier: BSD-2-Clause
# kvm_text.py: the text of a KVM host's trace, line by line: what tracefs' file `trace` and
# `trace-cmd report` print, and what `perf script` prints. It knows the events that say what a
# virtual processor does, and passes over all others.
# Linux, Documentation/trace/ftrace.rst ("Output format"), arch/x86/kvm/trace.h,
# include/trace/events/sched.h; libtraceevent's plugins kvm and sched_switch, which trace-cmd and
# perf print with: they have words of their own.
import re
import typing

# What Linux calls the exit reasons: arch/x86/include/uapi/asm/vmx.h, without EXIT_REASON_. The text
# has the name alone. PENDING_INTERRUPT is trace-cmd's for 7.
REASONS = {
    name: int(number)
    for name, number in (
        pair.split(":")
        for pair in """
    EXCEPTION_NMI:0 EXTERNAL_INTERRUPT:1 TRIPLE_FAULT:2 INIT_SIGNAL:3 SIPI_SIGNAL:4
    INTERRUPT_WINDOW:7 PENDING_INTERRUPT:7 NMI_WINDOW:8 TASK_SWITCH:9 CPUID:10 HLT:12 INVD:13
    INVLPG:14 RDPMC:15 RDTSC:16 VMCALL:18 VMCLEAR:19 VMLAUNCH:20 VMPTRLD:21 VMPTRST:22 VMREAD:23
    VMRESUME:24 VMWRITE:25 VMOFF:26 VMON:27 CR_ACCESS:28 DR_ACCESS:29 IO_INSTRUCTION:30 MSR_READ:31
    MSR_WRITE:32 INVALID_STATE:33 MSR_LOAD_FAIL:34 MWAIT_INSTRUCTION:36 MONITOR_TRAP_FLAG:37
    MONITOR_INSTRUCTION:39 PAUSE_INSTRUCTION:40 MCE_DURING_VMENTRY:41 TPR_BELOW_THRESHOLD:43
    APIC_ACCESS:44 EOI_INDUCED:45 GDTR_IDTR:46 LDTR_TR:47 EPT_VIOLATION:48 EPT_MISCONFIG:49
    INVEPT:50 RDTSCP:51 PREEMPTION_TIMER:52 INVVPID:53 WBINVD:54 XSETBV:55 APIC_WRITE:56 RDRAND:57
    INVPCID:58 VMFUNC:59 ENCLS:60 RDSEED:61 PML_FULL:62 XSAVES:63 XRSTORS:64 UMWAIT:67 TPAUSE:68
    BUS_LOCK:74 NOTIFY:75""".split()
    )
}

# The task may have blanks and a hyphen in its name. The five flags are tracefs' and trace-cmd's.
# A time with a point is in seconds, one without is the clock's own count (trace_clock x86-tsc).
LINE = re.compile(
    r"^\s*(?P<comm>.*?)(?:-|\s+)(?P<tid>\d+)\s+(?:\([^)]*\)\s+)?\[(?P<cpu>\d+)\]\s+"
    r"(?:[^\s:]{4,8}\s+)?(?P<time>\d+(?:\.\d+)?):\s+(?:[a-z_0-9]+:)?"
    r"(?P<name>[a-z_0-9]+):\s*(?P<rest>.*)$"
)
HEX = r"(?:0x)?([0-9a-f]+)"
SWITCH = (
    re.compile(r"prev_comm=.* prev_pid=(\d+) .*prev_state=(\S+) ==> next_comm=.* next_pid=(\d+)"),
    re.compile(r".*:(\d+) \[\d+\] (\S+) ==> .*:(\d+) \[\d+\]"),
)
WAKEUP = (re.compile(r"comm=.* pid=(\d+)"), re.compile(r".*:(\d+) \[\d+\]"))
# tracefs', trace-cmd's, and `perf script --show-lost-events`. A number may be missing.
LOST = (
    re.compile(r"^\s*CPU:(?P<cpu>\d+) \[LOST (?:(?P<count>\d+) )?EVENTS\]"),
    re.compile(r"^\s*CPU:(?P<cpu>\d+) \[(?:(?P<count>\d+) )?EVENTS DROPPED\]"),
    re.compile(r"\[(?P<cpu>\d+)\].*PERF_RECORD_LOST(?:_SAMPLES)? lost (?P<count>\d+)"),
)
WRITTEN = re.compile(r"^# entries-in-buffer/entries-written: (\d+)/(\d+)")
NS = 1_000_000_000


class Event(typing.NamedTuple):
    """One event. `time`: the clock's counts, or ns where the text has seconds; `fields` by name, as
    numbers where they are."""

    time: int
    processor: int
    tid: int
    comm: str
    name: str
    fields: dict


class Text(typing.NamedTuple):
    """A whole text. `counts`: its times are the clock's counts, not ns. `lost` events are missing
    in all; where the text says so, an event "lost" with its count comes before the next one of that
    processor. `before` of them are missing before the first."""

    events: list
    counts: bool
    lost: int
    before: int
    complaints: list


def reason(name):
    """Takes an exit reason as Linux prints it; gives its number, None where it has none."""
    return REASONS.get(name) if not name.startswith("0x") else int(name, 16) & 0xFFFF


def exit_fields(rest):
    """Takes what kvm_exit prints; gives its fields, None where it is not that."""
    # Linux 6.1 prints the virtual processor; trace-cmd and older kernels leave it out.
    found = re.match(r"(?:vcpu (\d+) )?reason (\S+)(?: \((\d+)\))?", rest)
    if found is None:
        return None
    number = int(found[3]) if found[2] == "UNKNOWN" and found[3] else reason(found[2])
    if number is None:
        return None
    fields = {"reason": number}
    if found[1] is not None:
        fields["vcpu"] = int(found[1])
    for name, pattern in (("rip", rf"rip {HEX}"), ("info1", rf"info1? {HEX}")):
        value = re.search(pattern, rest)
        if value:
            fields[name] = int(value[1], 16)
    return fields


def numbers(rest, *words):
    """Gives {word: number} of a text like 'vcpu 0, rip 0x10'; a missing word is left out."""
    found = {}
    for word in words:
        value = re.search(rf"\b{word}[ =](0x[0-9a-f]+|\d+)", rest)
        if value:
            found[word] = int(value[1], 0)
    return found


def switch_fields(rest):
    for pattern in SWITCH:
        found = pattern.match(rest)
        if found:
            return {"prev": int(found[1]), "state": found[2], "next": int(found[3])}
    return None


def wakeup_fields(rest):
    for pattern in WAKEUP:
        found = pattern.match(rest)
        if found:
            return {"pid": int(found[1])}
    return None


def cr_fields(rest):
    found = re.match(rf"cr_(read|write) (\d+) = {HEX}", rest)
    return found and {
        "write": found[1] == "write",
        "number": int(found[2]),
        "value": int(found[3], 16),
    }


def cpuid_fields(rest):
    found = re.match(rf"func {HEX}", rest)
    return found and {"leaf": int(found[1], 16)}


def virq_fields(rest):
    found = re.match(rf"(?:IRQ|irq) {HEX}", rest)
    return found and {"vector": int(found[1], 16)}


# The probe is kvm_probe.py's.
FIELDS = {
    "kvm_exit": exit_fields,
    "kvm_entry": lambda rest: numbers(rest, "vcpu", "rip"),
    "vcpu": lambda rest: numbers(rest, "vcpu", "cr3", "cr3_known", "rsp", "rsp_known") or None,
    "kvm_nested_vmenter": lambda rest: {},
    "kvm_nested_vmexit": lambda rest: {},
    "kvm_nested_vmexit_inject": lambda rest: {},
    "kvm_cr": cr_fields,
    "kvm_inj_virq": virq_fields,
    "kvm_cpuid": cpuid_fields,
    "sched_switch": switch_fields,
    "sched_wakeup": wakeup_fields,
    "sched_waking": wakeup_fields,
}


def lost_line(line):
    """Gives (processor, count) of a line that says that events were lost, else None."""
    for pattern in LOST:
        found = pattern.search(line)
        if found:
            return int(found["cpu"]), int(found["count"] or 1)
    return None


def parse(lines, wanted=("kvm_exit", "kvm_entry")):
    """Takes the lines of a text; gives a Text, its events by time. What is not understood of an
    event that counts is a complaint. ValueError: no event of those names is in it."""
    events, complaints = [], []
    counts, before, bad = False, 0, 0
    gone = {}  # processor -> events lost since its last
    for line in lines:
        found = LINE.match(line)
        if found is None:
            place, written = lost_line(line), WRITTEN.match(line)
            if place:
                gone[place[0]] = gone.get(place[0], 0) + place[1]
            elif written:
                before = max(0, int(written[2]) - int(written[1]))
            continue
        if found["name"] not in FIELDS:
            continue
        fields = FIELDS[found["name"]](found["rest"])
        if fields is None:
            bad += 1
            if bad == 1:
                complaints.append(
                    f"{found['name']}: found '{found['rest'][:60]}', which is not "
                    "what Linux or trace-cmd prints"
                )
            continue
        seconds, _, rest = found["time"].partition(".")
        counts = counts or not rest
        event = Event(
            int(seconds) if not rest else int(seconds) * NS + int(rest[:9].ljust(9, "0")),
            int(found["cpu"]),
            int(found["tid"]),
            found["comm"],
            found["name"],
            fields,
        )
        if event.processor in gone:
            events.append(event._replace(name="lost", fields={"count": gone.pop(event.processor)}))
        events.append(event)
    if not any(event.name in wanted for event in events):
        raise ValueError(
            f"found no {' and no '.join(wanted)}, wanted the text of tracefs' `trace`, "
            "of `trace-cmd report` or of `perf script`, with KVM's events"
        )
    if bad > 1:
        complaints.append(f"{bad} events were not understood")
    lost = (
        before
        + sum(gone.values())
        + sum(event.fields["count"] for event in events if event.name == "lost")
    )
    if lost:
        complaints.append(f"the tracer lost {lost} events")
    # Of one time, the order of the text.
    events.sort(key=lambda event: event.time)
    return Text(events, counts, lost, before, complaints)
