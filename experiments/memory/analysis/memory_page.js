// SPDX-License-Identifier: BSD-2-Clause
// memory_page.js: the charts of a memory trace: addresses over time, what is touched in each
// window, and the working set. A click on an instruction shows its points, and the others become paler.
"use strict";
(function () {
  const {data, colour, element, Table, chart, charts} = tracePage;
  const POINT = 3;  // pixels
  const PALE = 0.25;

  function place(title) {
    return element(element(document.getElementById("charts"), "h2", title).parentNode, "div", "");
  }

  function lines(title, name, xs, found, options) {
    const series = Object.keys(found).map((label) =>
      ({label, stroke: () => colour(label), width: 1.5, ...options.series}));
    charts[name] = chart(place(title), {
      height: 260, scales: {x: {time: false, ...options.x}, y: options.y},
      axes: [{label: options.label}, {label: options.unit, size: 60}],
      series: [{label: options.label}, ...series],
    }, [xs, ...Object.values(found)]);
  }

  // ---- addresses: a series for each group, and one for the points of the chosen instruction ----

  function points(label, stroke) {
    return {label, paths: () => null, points: {show: true, size: POINT, width: 0, fill: stroke}};
  }

  function drawAddresses({column, row, cells, groups, ticks, end}) {
    const xs = [], ys = groups.map(() => []), instructions = [];
    let at = 0;
    for (let i = 0; i < cells.length; i += 4) {
      at += cells[i];
      xs.push(at * column);
      ys.forEach((list, group) => list.push(group === cells[i + 2] ? cells[i + 1] * row : null));
      instructions.push(cells[i + 3]);
    }
    const all = xs.map((_, i) => ys.find((list) => list[i] !== null)[i]);
    const axis = document.getElementById("addresses"), ticked = ticks.map(([value]) => value);
    const made = charts.addresses = chart(axis, {
      height: Math.max(200, Math.min(440, window.innerHeight * 0.4)),
      scales: {x: {time: false}, y: {range: () => [-0.5, end + 0.5]}},
      axes: [{label: "access number"},
        {size: 130, splits: () => ticked, values: () => ticks.map(([, text]) => text)}],
      series: [{label: "access"}, ...groups.map(([name, text]) => points(text, () => colour(name))),
        points("chosen", () => colour("bad"))],
      legend: {show: false},
    }, [xs, ...ys, xs.map(() => null)]);
    return function (chosen) {
      made.series.slice(1, -1).forEach((one) => one.alpha = chosen < 0 ? 1 : PALE);
      const found = instructions.map((one, i) => chosen >= 0 && one === chosen ? all[i] : null);
      made.setData([xs, ...ys, found], false);
      made.redraw();
    };
  }

  const choosePoints = data.addresses ? drawAddresses(data.addresses) : null;
  const windows = data.windows, sets = data.working_set;
  lines(`Pages and lines in each window of ${windows.size} accesses`, "windows", windows.starts,
    windows.touched, {label: "access number", unit: "touched", y: {distr: 4},
      series: {paths: uPlot.paths.stepped({align: 1})}});
  lines("Working set by window", "working_set", sets.windows, sets.means,
    {label: "window, accesses", unit: "mean working set", x: {distr: 3, log: 2},
      y: {distr: 3, log: 2}, series: {}});

  // ---- tables ----

  const tables = Object.fromEntries(data.tables.map((one) =>
    [one.name, new Table(document.getElementById("tables"), one)]));
  data.tables.forEach((one) => tables[one.name].fill(one.rows.map((cells) => ({cells}))));
  if (!choosePoints) return;
  const words = document.getElementById("chosen"), every = document.getElementById("every");

  // -1: all points are as they were.
  function choose(number) {
    tables.instructions.rows.forEach((row, i) => row.chosen = i === number);
    tables.instructions.show();
    words.textContent = number < 0 ? "" : tables.instructions.rows[number].cells.slice(0, -1)
      .filter(Boolean).join(", ") + ": " + data.words[number];
    every.disabled = number < 0;
    choosePoints(number);
  }

  tables.instructions.rows.forEach(function (row, number) {
    row.click = function (line) {
      const cell = line.cells[0], text = cell.textContent;
      cell.replaceChildren();
      element(cell, "button", text,
        {type: "button", className: "point", ariaPressed: !!row.chosen});
      line.addEventListener("click", () => choose(row.chosen ? -1 : number));
    };
  });
  every.addEventListener("click", () => choose(-1));
  tables.instructions.show();
})();
