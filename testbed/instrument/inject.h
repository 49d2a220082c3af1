/* SPDX-License-Identifier: BSD-2-Clause
 *
 * NMIs by schedule: at a chosen root-mode instruction of chosen VM exits, or at a chosen
 * instruction of the guest's NMI handler. Knows no Bochs; it says when, others deliver.
 */
#pragma once

#include <cstdint>
#include <vector>

/* The knobs `nmi_root` and `nmi_handler`. */
struct NmiSchedule {
    bool root = true;
    unsigned reason = 0; /* root: the exit reason that counts */
    uint64_t first = 1;  /* the first and the last such exit, or NMI, counted from 1 */
    uint64_t last = 1;
    bool sweep = false;     /* position 1 at the first, 2 at the next, and so on */
    uint64_t position = 1;  /* else: always here */
    uint64_t wrap = 0;      /* sweep: after this position comes 1 again; 0 never */
    bool host = false;      /* with a request in memory, as a processor that sends it leaves one */
    bool unblocked = false; /* root: after an SMI whose handler has executed IRET */

    /* The position for the n-th, counted from 1. */
    uint64_t position_of(uint64_t n) const;
};

/* What a sender of NMIs does to memory first: ORs `value` into the physical address; 0: nothing. */
struct Request {
    uint64_t address = 0;
    uint32_t value = 0;
};

/* NMIs that are due, all sorts, those with a request, and those that nothing blocks. */
struct DueNmis {
    unsigned all = 0;
    unsigned host = 0;
    unsigned unblocked = 0;
};

class Injector {
public:
    static constexpr uint64_t NEVER = ~uint64_t{0};

    Injector() = default;
    explicit Injector(const std::vector<NmiSchedule> &schedules)
        : plans_(schedules.begin(), schedules.end())
    {
    }

    /* A VM exit; `root` is the count of instructions in root mode so far. */
    void vm_exit(unsigned reason, uint64_t root);
    /* A VM entry is in flight: what was planned for this stay in root mode is missed now. */
    void vm_entry();
    /* An NMI begins in non-root mode or without VMX; `nonroot` counts the instructions there. */
    void nmi(uint64_t nonroot);

    /* Instructions in the given world until look() has to be called; 0 is now. */
    uint64_t budget(bool root, uint64_t count) const;
    /* NMIs that are due now in the given world. */
    DueNmis look(bool root, uint64_t count);

    void set_request(const Request &request) { request_ = request; }
    const Request &request() const { return request_; }

    uint64_t fired() const { return fired_; }
    uint64_t missed() const { return missed_; }

private:
    struct Plan : NmiSchedule {
        explicit Plan(const NmiSchedule &schedule) : NmiSchedule(schedule) {}
        uint64_t seen = 0;
        bool armed = false;
        uint64_t at = 0; /* instructions in its world, before this one more begins */
    };
    void count(Plan &plan, uint64_t now);

    std::vector<Plan> plans_;
    Request request_;
    uint64_t fired_ = 0;
    uint64_t missed_ = 0;
};
