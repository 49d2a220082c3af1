// timeline.js: the time line of a trace on a canvas. What it shows is JSON in the element #data, which
// timeline_page.py writes; times are ns from the start of the trace.
"use strict";
(function () {
  const AXIS = 26, ROW = 24, BAR = 18;  // CSS pixels
  const NEAR = 3;                       // records within so many pixels are the pointer's
  const TIP_RECORDS = 8;
  const FEW_PROCESSES = 30;
  const SHORTEST = 20;                  // ns in view
  const data = JSON.parse(document.getElementById("data").textContent);
  const view = document.getElementById("view"), canvas = view.querySelector("canvas");
  const labels = document.getElementById("labels"), tip = document.getElementById("tip");
  const shown = document.getElementById("range"), more = document.getElementById("more");
  const context = canvas.getContext("2d");
  const whole = Math.max(data.end, SHORTEST);
  let start = 0, end = whole, all = false, waiting = false, pointer = null, drag = null;

  // ---- data: intervals and records come as differences, which are short ----

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

  function rows() {
    const processors = data.rows.filter((row) => row.kind === "processor");
    const processes = data.rows.filter((row) => row.kind === "process");
    return processors.concat(all ? processes : processes.slice(0, FEW_PROCESSES));
  }

  // ---- text ----

  function time(ns, step) {
    const [unit, name] = (step || ns) >= 1e9 ? [1e9, "s"] : (step || ns) >= 1e6 ? [1e6, "ms"] :
      (step || ns) >= 1e3 ? [1e3, "\u00b5s"] : [1, "ns"];
    return (ns / unit).toLocaleString("en", {maximumFractionDigits: step ? 3 : 4}) + " " + name;
  }

  function processName(index) {
    return index < 0 ? "" : data.processes[index].label;
  }

  // ---- drawing ----

  let colours = {};
  function readColours() {
    const style = getComputedStyle(document.documentElement);
    data.states.concat(["ink", "soft", "line", "lost", "light", "dark", "page"]).forEach((name) => {
      colours[name] = style.getPropertyValue("--" + name).trim();
    });
    colours.hatched = hatch();
  }

  function hatch() {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const pen = tile.getContext("2d");
    pen.strokeStyle = colours.unknown;
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(-1, 7); pen.lineTo(7, -1);
    pen.stroke();
    return context.createPattern(tile, "repeat");
  }

  const unknown = data.states.indexOf("unknown");
  function fill(state) {
    context.fillStyle = state === unknown ? colours.hatched : colours[data.states[state]];
  }

  // A step of 1, 2 or 5 so that labels have room.
  function tickStep(width) {
    const least = (end - start) / Math.max(1, Math.floor(width / 110));
    const power = Math.pow(10, Math.floor(Math.log10(least)));
    return Math.max(1, [1, 2, 5, 10].map((n) => n * power).find((step) => step >= least));
  }

  function drawAxis(width, height) {
    const step = tickStep(width), scale = width / (end - start);
    context.textBaseline = "middle";
    context.font = "12px system-ui, \"DejaVu Sans\", sans-serif";
    for (let at = Math.ceil(start / step) * step; at <= end; at += step) {
      const x = (at - start) * scale;
      context.fillStyle = colours.line;
      context.fillRect(x, AXIS - 5, 1, height);
      context.fillStyle = colours.soft;
      context.fillText(at === 0 ? "0" : time(at, step), x + 3, AXIS / 2 - 2);
    }
  }

  // Intervals below a pixel share their column: each state has its part of the height, so that what
  // is rare is seen as rare.
  function drawRow(row, top, width) {
    const scale = width / (end - start), states = data.states.length;
    const mix = new Float64Array(states);
    let column = -1;
    function flush() {
      if (column < 0) return;
      const sum = mix.reduce((one, other) => one + other, 0);
      let y = top + BAR;
      for (let state = 0; state < states && sum > 0; state++) {
        if (mix[state] === 0) continue;
        const part = BAR * mix[state] / Math.max(sum, 1 / scale);
        fill(state);
        context.fillRect(column, y - part, 1, part);
        y -= part;
      }
      mix.fill(0);
      column = -1;
    }
    const last = row.end.length;
    for (let i = place(row.end, start); i < last && row.start[i] < end; i++) {
      const from = (Math.max(row.start[i], start) - start) * scale;
      const to = (Math.min(row.end[i], end) - start) * scale;
      if (to - from < 1) {
        const now = Math.floor(from);
        if (now !== column) flush();
        column = now;
        mix[row.state[i]] += row.end[i] - row.start[i];
        continue;
      }
      flush();
      fill(row.state[i]);
      context.fillRect(from, top, to - from, BAR);
      if (row.kind === "processor" && row.who[i] >= 0 && to - from > 50) drawName(row, i, from, to, top);
    }
    flush();
  }

  function drawName(row, i, from, to, top) {
    if (data.states[row.state[i]] !== "running") return;
    context.save();
    context.beginPath();
    context.rect(from, top, to - from - 3, BAR);
    context.clip();
    context.fillStyle = colours.light;
    context.fillText(processName(row.who[i]), from + 4, top + BAR / 2 + 1);
    context.restore();
  }

  function drawLosses(row, top, width) {
    const scale = width / (end - start);
    context.fillStyle = colours.lost;
    data.losses.forEach(function ([number, at]) {
      if (number !== row.number || at < start || at > end) return;
      const x = (at - start) * scale;
      context.beginPath();
      context.moveTo(x - 5, top - 4); context.lineTo(x + 5, top - 4); context.lineTo(x, top + 5);
      context.fill();
    });
  }

  function draw() {
    waiting = false;
    const now = rows(), width = view.clientWidth, height = AXIS + now.length * ROW;
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) ||
        canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = height + "px";
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    drawAxis(width, height);
    now.forEach(function (row, i) {
      const top = AXIS + i * ROW + (ROW - BAR) / 2;
      drawRow(row, top, width);
      if (row.kind === "processor") drawLosses(row, top, width);
    });
    if (pointer) {
      context.fillStyle = colours.ink;
      context.fillRect(pointer.x, AXIS - 5, 1, height);
    }
    shown.textContent = time(start) + " to " + time(end) + ", " + time(end - start) + " in view";
  }

  function redraw() {
    if (!waiting) {
      waiting = true;
      requestAnimationFrame(draw);
    }
  }

  function putLabels() {
    labels.textContent = "";
    rows().forEach(function (row, i, list) {
      const item = document.createElement("li");
      item.textContent = item.title = row.label;
      if (row.kind === "process" && i > 0 && list[i - 1].kind === "processor") item.className = "first";
      labels.append(item);
    });
  }

  // ---- what is in view ----

  function setRange(from, to) {
    const length = Math.min(Math.max(to - from, SHORTEST), whole);
    start = Math.min(Math.max(from + (to - from - length) / 2, 0), whole - length);
    end = start + length;
    showTip();
    redraw();
  }

  // Keeps the time at a part (0 to 1) of the width in its place.
  function zoom(factor, part) {
    const at = start + (end - start) * part, length = (end - start) * factor;
    setRange(at - length * part, at - length * part + length);
  }

  function pan(part) {
    const by = (end - start) * part;
    const to = Math.min(Math.max(start + by, 0), whole - (end - start));
    setRange(to, to + (end - start));
  }

  const actions = {
    in: () => zoom(0.5, 0.5), out: () => zoom(2, 0.5), left: () => pan(-0.25), right: () => pan(0.25),
    whole: () => setRange(0, whole),
  };
  const keys = {"+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right",
    Home: "whole", "0": "whole", w: "in", s: "out", a: "left", d: "right"};

  // ---- the pointer ----

  // What is at a place of the view: the row, its interval, and the records near.
  function hit(x, y) {
    const row = rows()[Math.floor((y - AXIS) / ROW)];
    if (!row || y < AXIS) return null;
    const at = start + x * (end - start) / view.clientWidth;
    const near = NEAR * (end - start) / view.clientWidth;
    const i = place(row.end, at + 1e-9);
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

  function showTip() {
    const found = pointer && !drag ? hit(pointer.x, pointer.y) : null;
    tip.hidden = !found;
    if (!found) return;
    tip.textContent = "";
    cell(tip, "p", found.row.label + ", at " + time(found.at));
    if (found.interval >= 0) cell(tip, "p", intervalText(found.row, found.interval));
    if (found.records.length) {
      const table = document.createElement("table"), head = table.insertRow();
      ["record at", "reason", "RIP", "CR3", "vector", "detail", "root"].forEach(
        (text) => cell(head, "th", text));
      found.records.slice(0, TIP_RECORDS).forEach((record) => recordLine(table, record));
      tip.append(table);
    }
    if (found.records.length > TIP_RECORDS)
      cell(tip, "p", "and " + (found.records.length - TIP_RECORDS) + " more: zoom in");
    const left = view.offsetLeft + pointer.x, room = view.offsetLeft + view.clientWidth;
    tip.style.left = Math.max(0, Math.min(left + 14, room - tip.offsetWidth)) + "px";
    tip.style.top = pointer.y + 18 + "px";
  }

  function place_of(event) {
    const box = view.getBoundingClientRect();
    return {x: event.clientX - box.left, y: event.clientY - box.top};
  }

  view.addEventListener("wheel", function (event) {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
      pan((event.deltaX || event.deltaY) / 800);
    else
      zoom(Math.pow(1.0015, event.deltaY), place_of(event).x / view.clientWidth);
  }, {passive: false});
  view.addEventListener("pointerdown", function (event) {
    drag = {x: event.clientX, start: start, end: end};
    view.setPointerCapture(event.pointerId);
  });
  view.addEventListener("pointermove", function (event) {
    pointer = place_of(event);
    if (drag) {
      const by = (drag.x - event.clientX) * (drag.end - drag.start) / view.clientWidth;
      const to = Math.min(Math.max(drag.start + by, 0), whole - (drag.end - drag.start));
      setRange(to, to + (drag.end - drag.start));
    }
    showTip();
    redraw();
  });
  ["pointerup", "pointercancel"].forEach((kind) => view.addEventListener(kind, () => {
    drag = null;
  }));
  view.addEventListener("pointerleave", function () {
    pointer = null;
    showTip();
    redraw();
  });
  view.addEventListener("keydown", function (event) {
    const action = event.ctrlKey || event.metaKey || event.altKey ? null : keys[event.key];
    if (!action) return;
    event.preventDefault();
    actions[action]();
  });
  document.querySelectorAll("button[data-action]").forEach((button) =>
    button.addEventListener("click", () => actions[button.dataset.action]()));

  const processes = data.rows.filter((row) => row.kind === "process").length;
  more.hidden = processes <= FEW_PROCESSES;
  more.textContent = "All " + processes + " processes";
  more.addEventListener("click", function () {
    all = !all;
    more.textContent = all ? "The first " + FEW_PROCESSES : "All " + processes + " processes";
    putLabels();
    redraw();
  });
  new ResizeObserver(redraw).observe(view); // the page changes its width without a resize, too
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () {
    readColours();
    redraw();
  });

  // For tests: what is in view, what is at a place, and how long drawing takes (ms).
  window.timeline = {
    range: () => [start, end],
    rows: () => rows().map((row) => row.label),
    pixel: (x, y) => Array.from(context.getImageData(
      Math.round(x * (window.devicePixelRatio || 1)), Math.round(y * (window.devicePixelRatio || 1)),
      1, 1).data),
    states: (label) => {
      const row = data.rows.find((one) => one.label === label);
      return Array.from(row.start, (from, i) => [from, row.end[i], data.states[row.state[i]]]);
    },
    drawing: () => {
      const before = performance.now();
      draw();
      context.getImageData(0, 0, 1, 1);
      return performance.now() - before;
    },
  };

  readColours();
  putLabels();
  draw();
})();
