// SPDX-License-Identifier: BSD-2-Clause
// timeline.js: the time line of a flow trace: a row for each processor and process, whose colours
// are states; the totals of what is in view; and the records at the pointer. The page's address
// keeps the view, the order and the filter. Times are ns from the start of the trace.
"use strict";
(function () {
  const AXIS = 50, ROW = 24, BAR = 18, LABELS = 150;  // CSS pixels
  const NAMED = 50;                // pixels from which on an interval has room for a name
  const PROCESSES_MAX = 60;        // rows of processes
  const NEAR = 3, RECORDS = 6;     // records within so many pixels are the pointer's; those shown
  const SHORTEST = 20;             // ns in view
  const SAVE_MS = 300;             // browsers refuse frequent changes of the address
  const {data, colour, element, Table, view, zoom} = tracePage;
  const whole = Math.max(data.end, SHORTEST);
  const place = document.getElementById("chart"), filter = document.getElementById("filter");
  const tip = document.getElementById("tip");
  const state = Object.fromEntries(data.states.map((name, i) => [name, i]));
  const processors = data.rows.filter((row) => row.kind === "processor");
  const processes = data.rows.filter((row) => row.kind === "process");
  let rows = [], saving = 0;

  // Times come as differences, which are short.
  data.rows.forEach(function (row) {
    let at = 0;
    row.end = row.gap.map((gap, i) => at += gap + row.length[i]);
    row.start = row.end.map((end, i) => end - row.length[i]);
  });
  Object.values(data.records).forEach(function (records) {
    let at = 0;
    records.time = records.time.map((difference) => at += difference);
  });

  // The index of the first that is not below; `list` rises.
  function indexOf(list, value) {
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle] < value) low = middle + 1; else high = middle;
    }
    return low;
  }

  // `step`: between ticks of an axis, which has the unit.
  function time(ns, step) {
    const [unit, name] = [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"], [1, "ns"]].find(
      ([unit]) => (step || ns) >= unit || unit === 1);
    return (ns / unit).toLocaleString("en", {maximumFractionDigits: step ? 3 : 4}) + " " + name +
      (step ? "" : data.where);
  }

  // ---- totals of what is in view: those of analyses.py. An event counts where it begins ----

  function percent(part, sum) {
    return sum ? 100 * part / sum : 0;
  }

  function stateHeads(states) {
    return states.flatMap((name) => [`${name}, ms${data.where}`, "%"]);
  }

  function stateCells(row, states, from, to) {
    const found = data.states.map(() => 0);
    for (let i = indexOf(row.end, from); i < row.start.length && row.start[i] < to; i++)
      found[row.state[i]] += Math.min(row.end[i], to) - Math.max(row.start[i], from);
    const sum = found.reduce((one, other) => one + other, 0);
    return states.flatMap((name) => [(found[state[name]] / 1e6).toFixed(3),
      percent(found[state[name]], sum).toFixed(1)]);
  }

  // How many of a row's intervals begin in the range and are wanted.
  function count(row, from, to, wanted) {
    let found = 0;
    for (let i = indexOf(row.start, from); i < row.start.length && row.start[i] < to; i++)
      found += wanted(i);
    return String(found);
  }

  function processTotals(row, from, to) {
    const active = (i) => i >= 0 && [state.running, state.root].includes(row.state[i]);
    return {row, cells: [row.label,
      count(row, from, to, (i) => active(i) && !(active(i - 1) && row.end[i - 1] === row.start[i])),
      ...stateCells(row, data.process_states, from, to),
      count(row, from, to, (i) => row.state[i] === state.preempted)]};
  }

  function processorTotals(row, from, to) {
    const ran = row.start.map((_, i) => i).filter((i) => row.state[i] === state.running);
    const switches = new Set(ran.filter((i, n) => n > 0 && row.who[ran[n - 1]] !== row.who[i]));
    const {time} = data.records[row.number];
    return {cells: [row.label, count(row, from, to, (i) => switches.has(i)),
      String(indexOf(time, to) - indexOf(time, from)),
      ...stateCells(row, data.processor_states, from, to)]};
  }

  function exitTotals(from, to) {
    const found = data.reasons.map(() => ({count: 0, root: 0, longest: 0}));
    Object.values(data.records).forEach(function (list) {
      for (let i = indexOf(list.time, from); i < list.time.length && list.time[i] < to; i++) {
        const one = found[list.reason[i]];
        one.count += 1;
        one.root += list.root[i];
        one.longest = Math.max(one.longest, list.root[i]);
      }
    });
    const seen = processors.filter((row) => row.end.length).reduce((sum, row) => sum +
      Math.max(0, Math.min(row.end.at(-1), to) - Math.max(row.start[0], from)), 0);
    return found.map((one, i) => ({cells: [data.reasons[i], String(one.count),
      (one.root / 1e6).toFixed(3), (one.longest / 1e3).toFixed(3),
      percent(one.root, seen).toFixed(3)]}));
  }

  function table(name, title, heads, hint, changed = save) {
    return new Table(document.getElementById("tables"), {name, title, heads, hint}, changed);
  }

  const tables = {
    processes: table("processes", "Processes",
      ["process", "runs", ...stateHeads(data.process_states), "preemptions"], "", putRows),
    processors: table("processors", "Processors",
      ["processor", "switches", "exits", ...stateHeads(data.processor_states)]),
    exits: table("exits", "Exits", ["reason", "exits", `root, ms${data.where}`,
      `longest, \u00b5s${data.where}`, "% of time"]),
  };
  if (data.nameless.length)
    tables.nameless = table("nameless", "Processes without a name",
      ["process", ...data.known_heads], data.known_meaning);

  // A process is wanted by any part of its name or CR3; commas are between several.
  function wanted(row) {
    const words = filter.value.toLowerCase().split(",").map((word) => word.trim()).filter(Boolean);
    return words.length === 0 ||
      words.some((word) => row.label.toLowerCase().includes(word) || row.cr3.includes(word));
  }

  function putTotals() {
    const {min, max} = chart.scales.x, to = max >= whole ? Infinity : max;
    tables.processes.fill(processes.filter(wanted).map((row) => processTotals(row, min, to)));
    tables.processors.fill(processors.map((row) => processorTotals(row, min, to)));
    tables.exits.fill(exitTotals(min, to));
    if (tables.nameless)
      tables.nameless.fill(data.nameless.filter(([number]) => wanted(processes[number]))
        .map(([number, cells]) => ({cells: [processes[number].label, ...cells]})));
    document.getElementById("shown").textContent = time(min) + " to " + time(max) + ", " +
      time(max - min) + " in view";
    putRows();
  }

  // The processors, and the processes in their table's order.
  function putRows() {
    const found = tables.processes.sorted().map((line) => line.row);
    rows = processors.concat(found.slice(0, PROCESSES_MAX));
    document.getElementById("count").textContent =
      `${found.length} of ${processes.length} processes`;
    chart.setSize({width: place.clientWidth, height: AXIS + ROW * rows.length});
    chart.setScale("y", {min: -0.5, max: rows.length - 0.5});
    save();
  }

  // ---- the chart ----

  // Intervals below a pixel share their column: each state has its part of the height, so that what
  // is rare is seen as rare.
  function drawRow(u, row, top, bar) {
    const {min, max} = u.scales.x, scale = u.bbox.width / (max - min);
    let mix = null, column = -1;
    const fill = (name, x, y, width, height) => {
      u.ctx.fillStyle = colour(name);
      u.ctx.fillRect(x, y, width, height);
    };
    const flush = function () {
      let y = top + bar;
      (mix || []).forEach(function (part, i) {
        const height = bar * Math.min(part * scale, 1);
        fill(data.states[i], column, y - height, 1, height);
        y -= height;
      });
      mix = null;
    };
    for (let i = indexOf(row.end, min); i < row.end.length && row.start[i] < max; i++) {
      const from = u.bbox.left + (Math.max(row.start[i], min) - min) * scale;
      const to = u.bbox.left + (Math.min(row.end[i], max) - min) * scale;
      if (to - from < 1) {
        if (Math.floor(from) !== column) flush();
        column = Math.floor(from);
        mix = mix || data.states.map(() => 0);
        mix[row.state[i]] += row.end[i] - row.start[i];
        continue;
      }
      flush();
      fill(data.states[row.state[i]], from, top, to - from, bar);
      if (row.kind === "processor" && row.state[i] === state.running &&
          to - from > NAMED * devicePixelRatio) {
        u.ctx.fillStyle = "#fff";
        u.ctx.fillText(processes[row.who[i]].label, from + 4, top + bar / 2, to - from - 8);
      }
    }
    flush();
  }

  function drawRows(u) {
    const {ctx, bbox} = u, bar = BAR * devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    ctx.font = 12 * devicePixelRatio + "px system-ui, sans-serif";
    rows.forEach((row, i) => drawRow(u, row, u.valToPos(i, "y", true) - bar / 2, bar));
    ctx.fillStyle = colour("lost");
    data.losses.forEach(function ([number, at]) {
      const x = u.valToPos(at, "x", true);
      const y = u.valToPos(rows.findIndex((row) => row.number === number), "y", true) - bar / 2;
      ctx.fillRect(x - 2, y, 4, bar / 2);
    });
    ctx.restore();
  }

  const chart = tracePage.charts.timeline = tracePage.chart(place, {
    padding: [0, 16, 0, 0],
    scales: {x: {time: false}, y: {dir: -1, range: () => [-0.5, rows.length - 0.5]}},
    series: [{}, {paths: () => null, points: {show: false}}],
    axes: [
      {size: AXIS, values: (u, ticks) =>
        ticks.map((at) => at === 0 ? "0" : time(at, ticks[1] - ticks[0]))},
      {size: LABELS, splits: () => rows.map((row, i) => i), values: () => rows.map((row) =>
        row.label.length > 20 ? row.label.slice(0, 19) + "\u2026" : row.label),
        grid: {show: false}},
    ],
    legend: {show: false},
    hooks: {draw: [drawRows], setCursor: [showTip]},
  }, [[0, whole], [0, 0]], SHORTEST);
  // A chart takes no change from within a hook.
  chart.hooks.setScale = [(u, key) => key === "x" && queueMicrotask(putTotals)];

  // ---- the pointer ----

  // The records that are near a time, in a processor's or a process's row.
  function recordsNear(row, at, near) {
    const found = [];
    Object.entries(data.records).forEach(function ([number, list]) {
      if (row.kind === "processor" && Number(number) !== row.number) return;
      const end = indexOf(list.time, at + near);
      for (let i = indexOf(list.time, at - near); i < end; i++)
        if (row.kind === "processor" || data.cr3s[list.cr3[i]][1] === row.number)
          found.push({list, i, distance: Math.abs(list.time[i] - at)});
    });
    return found.sort((one, other) => one.distance - other.distance);
  }

  function recordCells({list, i}) {
    const [cr3, who] = data.cr3s[list.cr3[i]];
    return [time(list.time[i]), data.reasons[list.reason[i]], data.rips[list.rip[i]],
      cr3 + (who < 0 ? "" : ` (${processes[who].label})`),
      list.vector[i] ? "0x" + list.vector[i].toString(16) : "", "0x" + list.detail[i].toString(16),
      time(list.root[i])];
  }

  function intervalText(row, i) {
    const by = row.who[i] < 0 ? "" : (row.state[i] === state.preempted ? " by " : ", ") +
      processes[row.who[i]].label;
    const text = data.texts[row.text[i]];
    return data.states[row.state[i]] + by + (text ? ", " + text : "") + ": " + time(row.start[i]) +
      ", for " + time(row.end[i] - row.start[i]);
  }

  function showTip(u) {
    const row = u.cursor.left < 0 ? null : rows[Math.round(u.posToVal(u.cursor.top, "y"))];
    tip.replaceChildren();
    if (!row) return;
    // In the half of the window where the pointer is not.
    const y = u.over.getBoundingClientRect().top + u.cursor.top;
    tip.classList.toggle("above", y > window.innerHeight / 2);
    const at = u.posToVal(u.cursor.left, "x");
    const i = indexOf(row.end, at);
    const records = recordsNear(row, at, u.posToVal(NEAR, "x") - u.posToVal(0, "x"));
    element(tip, "p",
      row.label + ", at " + time(at) + (row.known ? "; no name; " + row.known : ""));
    if (row.start[i] <= at) element(tip, "p", intervalText(row, i));
    const lines = element(tip, "table", "");
    records.slice(0, RECORDS).forEach(function (record) {
      const line = lines.insertRow();
      recordCells(record).forEach((text) => element(line, "td", text));
    });
    if (records.length) {
      const head = lines.createTHead().insertRow();
      ["record at", "reason", "RIP", "CR3", "vector", "detail", "root"].forEach(
        (text) => element(head, "th", text));
    }
    if (records.length > RECORDS)
      element(tip, "p", `and ${records.length - RECORDS} more: zoom in`);
  }

  // ---- keys, buttons, the page's address ----

  const show = (from, to) => view(chart, from, to, SHORTEST);
  function pan(part) {
    const {min, max} = chart.scales.x, by = (max - min) * part;
    const to = Math.min(Math.max(min + by, 0), whole - (max - min));
    show(to, to + max - min);
  }
  const actions = {
    in: () => zoom(chart, 0.5, 0.5, SHORTEST), out: () => zoom(chart, 2, 0.5, SHORTEST),
    left: () => pan(-0.25), right: () => pan(0.25), whole: () => show(0, whole),
  };
  const keys = {"+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right",
    Home: "whole"};

  function save() {
    clearTimeout(saving);
    saving = setTimeout(function () {
      const words = new URLSearchParams(), {min, max} = chart.scales.x;
      if (min > 0 || max < whole) words.set("view", Math.round(min) + "-" + Math.round(max));
      if (filter.value) words.set("filter", filter.value);
      const sorts = Object.entries(tables).filter(([, table]) => table.order)
        .map(([name, table]) => name + "." + table.order);
      if (sorts.length) words.set("sort", sorts.join(","));
      const text = words.toString();
      history.replaceState(null, "", text ? "#" + text : location.pathname + location.search);
    }, SAVE_MS);
  }

  function restore() {
    const words = new URLSearchParams(location.hash.slice(1));
    filter.value = words.get("filter") || "";
    const sorts = new Map((words.get("sort") || "").split(",").map((word) => word.split(".")));
    Object.entries(tables).forEach(([name, table]) => table.sort(sorts.get(name) || ""));
    const [from, to] = (words.get("view") || "").split("-").map(Number);
    if (from < to) show(from, to); else show(0, whole);
  }

  place.addEventListener("keydown", function (event) {
    const action = event.ctrlKey || event.metaKey || event.altKey ? null : keys[event.key];
    if (!action) return;
    event.preventDefault();
    actions[action]();
  });
  document.querySelectorAll("button[data-action]").forEach((button) =>
    button.addEventListener("click", actions[button.dataset.action]));
  filter.addEventListener("input", putTotals);
  window.addEventListener("hashchange", () => location.hash.includes("=") && restore());
  restore();
})();
