// SPDX-License-Identifier: BSD-2-Clause
// timeline_data.js: the trace of the page, JSON in the element #data, which timeline_page.py writes.
// Times are ns from the start of the trace. It knows nothing of what is in view.
"use strict";
const trace = (function () {
  const SHORTEST = 20;  // ns in view
  const data = JSON.parse(document.getElementById("data").textContent);

  // Intervals and records come as differences, which are short.
  data.rows.forEach(function (row) {
    const count = row.length.length;
    row.start = new Float64Array(count);
    row.end = new Float64Array(count);
    let at = 0;
    for (let i = 0; i < count; i++) {
      row.start[i] = at += row.gap[i];
      row.end[i] = at += row.length[i];
    }
  });
  Object.values(data.records).forEach(function (records) {
    let at = 0;
    records.time = Float64Array.from(records.time, (difference) => at += difference);
  });

  // The index of the first that is not below; `list` rises.
  function place(list, value) {
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle] < value) low = middle + 1; else high = middle;
    }
    return low;
  }

  // A time as text. `step`: between ticks of an axis, which has the unit.
  function time(ns, step) {
    const [unit, name] = (step || ns) >= 1e9 ? [1e9, "s"] : (step || ns) >= 1e6 ? [1e6, "ms"] :
      (step || ns) >= 1e3 ? [1e3, "\u00b5s"] : [1, "ns"];
    return (ns / unit).toLocaleString("en", {maximumFractionDigits: step ? 3 : 4}) + " " + name +
      (step ? "" : data.where);
  }

  function processName(index) {
    return index < 0 ? "" : data.processes[index].label;
  }

  return {
    data: data, place: place, time: time, processName: processName, shortest: SHORTEST,
    whole: Math.max(data.end, SHORTEST),
    processors: data.rows.filter((row) => row.kind === "processor"),
    // By number, which is their index in data.processes.
    processes: data.rows.filter((row) => row.kind === "process"),
  };
})();
