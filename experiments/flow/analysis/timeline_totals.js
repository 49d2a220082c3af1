// SPDX-License-Identifier: BSD-2-Clause
// timeline_totals.js: the totals of a range, in the page's tables: what timeline_tables.py has of the
// whole trace, by the same rules (analyses.py). What happens counts where it begins.
"use strict";
const totals = (function () {
  const {data, place} = trace;
  const state = Object.fromEntries(data.states.map((name, i) => [name, i]));

  // Time in each state, and its share of all of them, as texts.
  function times(row, from, to) {
    const found = new Float64Array(data.states.length), texts = {};
    for (let i = place(row.end, from); i < row.start.length && row.start[i] < to; i++)
      found[row.state[i]] += Math.max(0, Math.min(row.end[i], to) - Math.max(row.start[i], from));
    const sum = found.reduce((one, other) => one + other, 0);
    found.forEach(function (ns, i) {
      texts[data.states[i]] = (ns / 1e6).toFixed(3);
      texts[data.states[i] + "%"] = (sum ? 100 * ns / sum : 0).toFixed(1);
    });
    return texts;
  }

  // How many of a row's intervals begin in the range and are wanted.
  function count(row, from, to, wanted) {
    let found = 0;
    for (let i = place(row.start, from); i < row.start.length && row.start[i] < to; i++)
      found += wanted(i);
    return found;
  }

  function process(number, from, to) {
    const row = trace.processes[number];
    const active = (i) => row.state[i] === state.running || row.state[i] === state.root;
    return {
      ...times(row, from, to),
      runs: count(row, from, to, (i) => active(i) &&
        !(i > 0 && active(i - 1) && row.end[i - 1] === row.start[i])),
      preemptions: count(row, from, to, (i) => row.state[i] === state.preempted),
    };
  }

  // Whom a processor ran before interval i; -1: nobody.
  function before(row, i) {
    for (i -= 1; i >= 0; i--)
      if (row.state[i] === state.running) return row.who[i];
    return -1;
  }

  function processor(number, from, to) {
    const row = trace.processors.find((one) => one.number === number);
    const list = data.records[number].time;
    let last = before(row, place(row.start, from));
    return {
      ...times(row, from, to),
      switches: count(row, from, to, function (i) {
        if (row.state[i] !== state.running) return false;
        const other = last >= 0 && row.who[i] !== last;
        last = row.who[i];
        return other;
      }),
      exits: place(list, to) - place(list, from),
    };
  }

  // By reason: how many, and their time in root mode in ns, in all and the longest.
  function exits(from, to) {
    const found = data.reasons.map(() => ({exits: 0, root: 0, longest: 0}));
    Object.values(data.records).forEach(function (list) {
      for (let i = place(list.time, from); i < list.time.length && list.time[i] < to; i++) {
        const one = found[list.reason[i]];
        one.exits += 1;
        one.root += list.root[i];
        one.longest = Math.max(one.longest, list.root[i]);
      }
    });
    const seen = (row) => row.end.length === 0 ? 0 :
      Math.max(0, Math.min(row.end[row.end.length - 1], to) - Math.max(row.start[0], from));
    const time = trace.processors.reduce((sum, row) => sum + seen(row), 0);
    return found.map((one) => ({
      exits: one.exits, root: (one.root / 1e6).toFixed(3), longest: (one.longest / 1e3).toFixed(3),
      "root%": (time ? 100 * one.root / time : 0).toFixed(3),
    }));
  }

  // Puts them into the tables. `range`: from and to, or null for the whole trace.
  function fill(range) {
    const [from, end] = range || [0, trace.whole];
    const to = end >= trace.whole ? Infinity : end;
    const reasons = exits(from, to);
    const rules = {
      processes: (number) => process(number, from, to),
      processors: (number) => processor(number, from, to),
      exits: (number) => reasons[number],
    };
    for (const [name, rule] of Object.entries(rules)) {
      const table = document.querySelector(`[data-table=${name}]`);
      const heads = Array.from(table.tHead.rows[0].cells, (head) => head.dataset.sum);
      for (const line of table.tBodies[0].rows) {
        const found = rule(Number(line.dataset.number));
        for (let i = 1; i < heads.length; i++) line.cells[i].textContent = found[heads[i]];
      }
    }
    document.querySelectorAll("h2 .of").forEach(function (text) {
      text.textContent = range ? trace.time(from) + " to " + trace.time(end) : "whole trace";
    });
  }

  return {fill: fill};
})();
