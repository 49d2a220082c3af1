// SPDX-License-Identifier: BSD-2-Clause
// timeline_tip.js: what the pointer shows: the row, its interval and the records near. It lies beside
// the row that is pointed at, never on it, and whole in the window.
"use strict";
const tips = (function () {
  const NEAR = 3;                 // records within so many pixels are the pointer's
  const RECORDS = 8;              // of them that are shown
  const GAP = 6, ASIDE = 14, EDGE = 4;  // CSS pixels
  const {data, place, time, processName} = trace;
  const tip = document.getElementById("tip");

  // What is at a time of a row: its interval (-1: none), and the records near. `pixel`: its time.
  function hit(row, at, pixel) {
    const near = NEAR * pixel, i = place(row.end, at + 1e-9);
    const interval = i < row.start.length && row.start[i] <= at ? i : -1;
    const found = [];
    for (const number of Object.keys(data.records)) {
      if (row.kind === "processor" && Number(number) !== row.number) continue;
      const list = data.records[number];
      let from = place(list.time, at - near), to = place(list.time, at + near);
      // Where none is near, it is the one that the interval came from.
      if (from === to && from > 0 && row.kind === "processor") from -= 1;
      for (let n = from; n < to; n++)
        if (row.kind === "processor" || data.cr3s[list.cr3[n]][1] === row.number)
          found.push({number: Number(number), index: n, distance: Math.abs(list.time[n] - at)});
    }
    found.sort((one, other) => one.distance - other.distance);
    return {row: row, at: at, interval: interval, records: found};
  }

  function cell(line, kind, text) {
    const made = document.createElement(kind);
    made.textContent = text;
    line.append(made);
  }

  function recordLine(table, found) {
    const list = data.records[found.number], n = found.index, line = table.insertRow();
    const who = data.cr3s[list.cr3[n]];
    [time(list.time[n]), data.reasons[list.reason[n]], data.rips[list.rip[n]],
      who[0] + (who[1] >= 0 ? " (" + processName(who[1]) + ")" : ""),
      list.vector[n] ? "0x" + list.vector[n].toString(16) : "",
      "0x" + list.detail[n].toString(16), time(list.root[n])].forEach((text) => cell(line, "td", text));
  }

  function intervalText(row, i) {
    const who = row.who[i], state = data.states[row.state[i]];
    const by = who < 0 ? "" : (state === "preempted" ? " by " : ", ") + processName(who);
    const text = data.texts[row.text[i]];
    return state + by + (text ? ", " + text : "") + ": " + time(row.start[i]) + ", for " +
      time(row.end[i] - row.start[i]);
  }

  function write(found, records) {
    const known = found.row.kind === "process" ? data.processes[found.row.number].known : "";
    tip.textContent = "";
    cell(tip, "p", found.row.label + ", at " + time(found.at));
    if (found.interval >= 0) cell(tip, "p", intervalText(found.row, found.interval));
    if (known) cell(tip, "p", "No name; " + known);
    if (records) {
      const table = document.createElement("table"), head = table.insertRow();
      ["record at", "reason", "RIP", "CR3", "vector", "detail", "root"].forEach(
        (text) => cell(head, "th", text));
      found.records.slice(0, records).forEach((record) => recordLine(table, record));
      tip.append(table);
    }
    if (found.records.length > records)
      cell(tip, "p", (records ? "and " : "") + (found.records.length - records) +
        (records ? " more" : " records") + ": zoom in");
  }

  // Shows what hit() gave. `x`, `top`, `bottom`: of the pointer and of the row, in the window. Where
  // neither above nor below has room for all, there are fewer records.
  function show(found, x, top, bottom) {
    const above = top - GAP - EDGE, below = window.innerHeight - bottom - GAP - EDGE;
    let records = Math.min(found.records.length, RECORDS);
    tip.hidden = false;
    tip.style.left = tip.style.top = "0";
    write(found, records);
    while (tip.offsetHeight > Math.max(above, below) && records > 0) write(found, --records);
    const down = tip.offsetHeight <= below || below >= above;
    const most = document.documentElement.clientWidth - EDGE - tip.offsetWidth;
    tip.style.left = Math.max(EDGE, Math.min(x + ASIDE, most)) + "px";
    tip.style.top = (down ? bottom + GAP : top - GAP - tip.offsetHeight) + "px";
  }

  function hide() {
    tip.hidden = true;
  }

  return {hit: hit, show: show, hide: hide};
})();
