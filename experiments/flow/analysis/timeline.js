// SPDX-License-Identifier: BSD-2-Clause
// timeline.js: the time line of a trace on a canvas: what is in view, which rows, and which range is
// chosen; the page's address keeps all of it.
"use strict";
(function () {
  const AXIS = 26, ROW = 24, BAR = 18;  // CSS pixels
  const FEW_PROCESSES = 30;
  const CLICK = 3;                      // pixels that a click may move
  const SAVE_MS = 300;                  // browsers refuse more than some changes of the address
  const {data, place, time, processName, whole} = trace;
  const view = document.getElementById("view"), canvas = view.querySelector("canvas");
  const labels = document.getElementById("labels"), filter = document.getElementById("filter");
  const more = document.getElementById("more");
  const context = canvas.getContext("2d");
  const sorted = Array.from(document.querySelectorAll("table[data-table]"));
  const processTable = sorted.find((table) => table.dataset.table === "processes");
  let start = 0, end = whole, all = false, range = null, waiting = false, pointer = null, drag = null;
  let order = [], matching = 0, saving = 0;

  // ---- rows ----

  // A process is wanted by any part of its name or CR3; commas are between several.
  function wanted(number) {
    const words = filter.value.toLowerCase().split(",").map((word) => word.trim()).filter(Boolean);
    const {label, cr3} = data.processes[number];
    return words.length === 0 ||
      words.some((word) => label.toLowerCase().includes(word) || cr3.includes(word));
  }

  // The processors, and of the processes those that the filter leaves, in their table's order.
  function putRows() {
    const lines = sorted.filter((table) => ["processes", "nameless"].includes(table.dataset.table))
      .flatMap((table) => Array.from(table.tBodies[0].rows));
    lines.forEach((line) => line.hidden = !wanted(Number(line.dataset.number)));
    const found = Array.from(processTable.tBodies[0].rows).filter((line) => !line.hidden)
      .map((line) => trace.processes[Number(line.dataset.number)]);
    matching = found.length;
    order = trace.processors.concat(all ? found : found.slice(0, FEW_PROCESSES));
    more.hidden = matching <= FEW_PROCESSES;
    more.textContent = all ? "The first " + FEW_PROCESSES : "All " + matching + " processes";
    document.getElementById("count").textContent = matching + " of " + trace.processes.length +
      " processes";
    putLabels();
    redraw();
  }

  function putLabels() {
    labels.textContent = "";
    order.forEach(function (row, i) {
      const item = document.createElement("li");
      item.textContent = item.title = row.label;
      if (row.kind === "process") {
        if (data.processes[row.number].known)
          item.title += "\n" + data.processes[row.number].known.replaceAll("; ", "\n");
        if (i > 0 && order[i - 1].kind === "processor") item.className = "first";
      }
      labels.append(item);
    });
  }

  // ---- drawing ----

  let colours = {};
  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const others = ["ink", "soft", "line", "lost", "light", "dark", "page", "link"];
    data.states.concat(others).forEach((name) => {
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

  // All but the range is paler; the axis has the range as a bar.
  function drawChosen(width, height) {
    const scale = width / (end - start);
    const [from, to] = range.map((at) => Math.min(Math.max((at - start) * scale, -1), width + 1));
    context.globalAlpha = 0.6;
    context.fillStyle = colours.page;
    context.fillRect(0, AXIS, from, height);
    context.fillRect(to, AXIS, width - to, height);
    context.globalAlpha = 1;
    context.fillStyle = colours.link;
    context.fillRect(from, AXIS - 5, Math.max(to - from, 1), 3);
    context.fillRect(from, AXIS - 5, 1, height);
    context.fillRect(to - 1, AXIS - 5, 1, height);
  }

  function draw() {
    waiting = false;
    const width = view.clientWidth, height = AXIS + order.length * ROW;
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
    order.forEach(function (row, i) {
      const top = AXIS + i * ROW + (ROW - BAR) / 2;
      drawRow(row, top, width);
      if (row.kind === "processor") drawLosses(row, top, width);
    });
    if (range) drawChosen(width, height);
    if (pointer) {
      context.fillStyle = colours.ink;
      context.fillRect(pointer.x, AXIS - 5, 1, height);
    }
    document.getElementById("shown").textContent = time(start) + " to " + time(end) + ", " +
      time(end - start) + " in view";
  }

  function redraw() {
    if (!waiting) {
      waiting = true;
      requestAnimationFrame(draw);
    }
  }

  // ---- what is in view, and the range ----

  function setView(from, to) {
    const length = Math.min(Math.max(to - from, trace.shortest), whole);
    start = Math.min(Math.max(from + (to - from - length) / 2, 0), whole - length);
    end = start + length;
    showTip();
    redraw();
    save();
  }

  // Keeps the time at a part (0 to 1) of the width in its place.
  function zoom(factor, part) {
    const at = start + (end - start) * part, length = (end - start) * factor;
    setView(at - length * part, at - length * part + length);
  }

  function pan(part) {
    const by = (end - start) * part;
    const to = Math.min(Math.max(start + by, 0), whole - (end - start));
    setView(to, to + (end - start));
  }

  // Takes two times in any order. What is empty is no range.
  function choose(one, other) {
    const [from, to] = [Math.min(one, other), Math.max(one, other)].map(
      (at) => Math.round(Math.min(Math.max(at, 0), whole)));
    range = from < to ? [from, to] : null;
    document.getElementById("range").textContent = range ?
      "range: " + time(from) + " to " + time(to) + ", " + time(to - from) : "";
    document.querySelectorAll("[data-action=fit], [data-action=clear]").forEach(
      (button) => button.disabled = !range);
    redraw();
  }

  // The tables have the range's totals, and so maybe another order.
  function putTotals() {
    totals.fill(range);
    sorted.forEach(tables.again);
    putRows();
    save();
  }

  function chosen(from, to) {
    choose(from, to);
    putTotals();
  }

  const actions = {
    in: () => zoom(0.5, 0.5), out: () => zoom(2, 0.5), left: () => pan(-0.25), right: () => pan(0.25),
    whole: () => setView(0, whole), choose: () => chosen(start, end),
    fit: () => range && setView(...range), clear: () => chosen(0, 0),
  };
  const keys = {"+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right",
    Home: "whole", "0": "whole", w: "in", s: "out", a: "left", d: "right", r: "choose",
    Escape: "clear"};

  // ---- the page's address ----

  function save() {
    clearTimeout(saving);
    saving = setTimeout(function () {
      const words = new URLSearchParams();
      if (start > 0 || end < whole) words.set("view", Math.round(start) + "-" + Math.round(end));
      if (range) words.set("range", range.join("-"));
      if (filter.value) words.set("filter", filter.value);
      const sorts = sorted.filter((table) => table.dataset.sort)
        .map((table) => table.dataset.table + "." + table.dataset.sort);
      if (sorts.length) words.set("sort", sorts.join(","));
      if (all) words.set("all", "1");
      const text = words.toString();
      history.replaceState(null, "", text ? "#" + text : location.pathname + location.search);
    }, SAVE_MS);
  }

  // Two times, or what is there instead where the word has none.
  function span(words, name, instead) {
    const found = (words.get(name) || "").split("-").map(Number);
    return found.length === 2 && found.every(Number.isFinite) && found[0] < found[1] ? found : instead;
  }

  function restore() {
    const words = new URLSearchParams(location.hash.slice(1));
    filter.value = words.get("filter") || "";
    all = words.has("all");
    const sorts = new Map((words.get("sort") || "").split(",").map((word) => word.split(".")));
    sorted.forEach((table) => table.dataset.sort = sorts.get(table.dataset.table) || "");
    choose(...span(words, "range", [0, 0]));
    putTotals();
    setView(...span(words, "view", [0, whole]));
  }

  // ---- the pointer ----

  function showTip() {
    const at = pointer && !drag && pointer.y >= AXIS ? Math.floor((pointer.y - AXIS) / ROW) : -1;
    if (!order[at]) return tips.hide();
    const box = view.getBoundingClientRect(), pixel = (end - start) / view.clientWidth;
    const top = box.top + AXIS + at * ROW;
    return tips.show(tips.hit(order[at], start + pointer.x * pixel, pixel), box.left + pointer.x, top,
                     top + ROW);
  }

  function placeOf(event) {
    const box = view.getBoundingClientRect();
    return {x: event.clientX - box.left, y: event.clientY - box.top};
  }

  function timeAt(x) {
    return start + x * (end - start) / view.clientWidth;
  }

  function leave() {
    pointer = null;
    showTip();
    redraw();
  }

  view.addEventListener("wheel", function (event) {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
      pan((event.deltaX || event.deltaY) / 800);
    else
      zoom(Math.pow(1.0015, event.deltaY), placeOf(event).x / view.clientWidth);
  }, {passive: false});
  view.addEventListener("pointerdown", function (event) {
    if (event.button) return;
    const {x, y} = placeOf(event);
    drag = {x: event.clientX, start: start, end: end, at: timeAt(x),
      chooses: event.shiftKey || y < AXIS};
    view.setPointerCapture(event.pointerId);
  });
  view.addEventListener("pointermove", function (event) {
    pointer = placeOf(event);
    view.style.cursor = pointer.y < AXIS || event.shiftKey ? "crosshair" : "";
    if (drag && drag.chooses) {
      choose(drag.at, Math.abs(event.clientX - drag.x) < CLICK ? drag.at : timeAt(pointer.x));
    } else if (drag) {
      const by = (drag.x - event.clientX) * (drag.end - drag.start) / view.clientWidth;
      const to = Math.min(Math.max(drag.start + by, 0), whole - (drag.end - drag.start));
      setView(to, to + (drag.end - drag.start));
    }
    showTip();
    redraw();
  });
  ["pointerup", "pointercancel"].forEach((kind) => view.addEventListener(kind, function () {
    if (drag && drag.chooses) putTotals();
    drag = null;
    showTip();
  }));
  view.addEventListener("pointerleave", leave);
  window.addEventListener("scroll", leave, {passive: true});
  view.addEventListener("keydown", function (event) {
    const action = event.ctrlKey || event.metaKey || event.altKey ? null : keys[event.key];
    if (!action) return;
    event.preventDefault();
    actions[action]();
  });
  document.querySelectorAll("button[data-action]").forEach((button) =>
    button.addEventListener("click", () => actions[button.dataset.action]()));
  filter.addEventListener("input", function () {
    putRows();
    save();
  });
  more.addEventListener("click", function () {
    all = !all;
    putRows();
    save();
  });
  sorted.forEach((table) => tables.sortable(table, function () {
    putRows();
    save();
  }));
  window.addEventListener("hashchange", () => location.hash.includes("=") && restore());
  new ResizeObserver(redraw).observe(view); // the page changes its width without a resize, too
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () {
    readColours();
    redraw();
  });

  // For tests: what is in view, what is at a place, and how long drawing takes (ms).
  window.timeline = {
    view: () => [start, end],
    range: () => range,
    rows: () => order.map((row) => row.label),
    pixels: (places) => {
      const ratio = window.devicePixelRatio || 1, image = context.getImageData(
        0, 0, canvas.width, canvas.height);
      return places.map(function ([x, y]) {
        const at = 4 * (Math.round(y * ratio) * image.width + Math.round(x * ratio));
        return Array.from(image.data.slice(at, at + 4));
      });
    },
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
  restore();
  draw();
})();
