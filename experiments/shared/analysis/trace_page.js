// SPDX-License-Identifier: BSD-2-Clause
// trace_page.js: what the pages of both traces share: tables whose columns sort, and charts by
// uPlot.
"use strict";
const tracePage = (function () {
  const data = JSON.parse(document.getElementById("data").textContent);

  // A colour of the page's style, for light or dark.
  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  function element(parent, kind, text, properties) {
    const made = document.createElement(kind);
    made.textContent = text;
    Object.assign(made, properties);
    parent.append(made);
    return made;
  }

  // ---- tables ----

  function value(text) {
    return text.trim() === "" || Number.isNaN(Number(text)) ? text : Number(text);
  }

  function compare(one, other) {
    if (typeof one !== typeof other) return typeof one === "number" ? 1 : -1;
    return typeof one === "number" ? one - other : one.localeCompare(other, "en", {numeric: true});
  }

  // The first column names the rows. `changed` is called after a click on a column's head.
  class Table {
    constructor(parent, {name, title, hint, heads}, changed = () => {}) {
      element(parent, "h2", title, {id: name});
      if (hint) element(parent, "p", hint, {className: "hint"});
      const scroll = element(parent, "div", "", {className: "scroll", tabIndex: 0});
      scroll.setAttribute("role", "region");
      scroll.setAttribute("aria-labelledby", name);
      this.table = element(scroll, "table", "");
      this.table.dataset.table = name;
      this.heads = heads.map((text, column) => {
        const head = document.createElement("th");
        element(head, "button", text, {type: "button", className: "sort"})
          .addEventListener("click", () => {
            this.click(column);
            changed();
          });
        return head;
      });
      this.table.createTHead().insertRow().append(...this.heads);
      this.body = this.table.createTBody();
      this.order = "";  // a column and "u" or "d"; "" is the order in which the rows came
      this.rows = [];
    }

    // `rows`: objects with their texts as `cells`.
    fill(rows) {
      this.rows = rows;
      this.heads.forEach((head, column) =>
        head.classList.toggle("text", rows.length > 0 && this.isText(column)));
      this.show();
    }

    isText(column) {
      return typeof value(this.rows[0].cells[column]) === "string";
    }

    // The first click has the largest number, or the first text, on top; the next one turns it
    // round.
    click(column) {
      const text = this.rows.length && this.isText(column);
      const up = this.order === column + "d" || (text && this.order !== column + "u");
      this.sort(column + (up ? "u" : "d"));
    }

    sort(order) {
      const column = parseInt(order, 10);
      this.order = column < this.heads.length && /^\d+[ud]$/.test(order) ? order : "";
      this.show();
    }

    sorted() {
      const column = parseInt(this.order, 10), sign = this.order.endsWith("u") ? 1 : -1;
      return this.order === "" ? this.rows : this.rows.slice().sort(
        (one, other) => sign * compare(value(one.cells[column]), value(other.cells[column])));
    }

    show() {
      const sorts = {u: "ascending", d: "descending"};
      this.heads.forEach((head, column) => head.setAttribute("aria-sort",
        parseInt(this.order, 10) === column ? sorts[this.order.slice(-1)] : "none"));
      this.body.replaceChildren(...this.sorted().map(function (row) {
        const line = document.createElement("tr");
        line.className = row.chosen ? "main chosen" : "main";
        row.cells.forEach(function (text, column) {
          const cell = element(line, column ? "td" : "th", text);
          if (column && typeof value(text) === "string") cell.className = "text";
        });
        if (row.click) row.click(line);
        return line;
      }));
    }
  }

  // ---- charts ----

  // Shows a part of the x axis, within the data and no smaller than `least`.
  function view(chart, from, to, least) {
    const xs = chart.data[0], start = xs[0], whole = xs[xs.length - 1] - start;
    const length = Math.min(Math.max(to - from, least), whole);
    const at = (from + to - length) / 2;
    const min = Math.min(Math.max(at, start), start + whole - length);
    chart.setScale("x", {min: min, max: min + length});
  }

  // Zooms by a factor, and keeps the value at a part (0 to 1) of the width in its place.
  function zoom(chart, factor, part, least) {
    const {min, max} = chart.scales.x, at = min + (max - min) * part;
    view(chart, at - (at - min) * factor, at + (max - at) * factor, least);
  }

  // A chart as wide as its place. Dragging and double clicks are uPlot's own; the wheel zooms as
  // well.
  function chart(place, options, values, least = 1) {
    const axis = {stroke: () => colour("soft"), grid: {stroke: () => colour("line"), width: 1},
      ticks: {stroke: () => colour("line"), width: 1}};
    const made = new uPlot({
      width: place.clientWidth, height: 300, ...options,
      axes: options.axes.map((one) => ({...axis, ...one})),
      cursor: {y: false, points: {show: false}, ...options.cursor},
    }, values, place);
    made.over.addEventListener("wheel", function (event) {
      event.preventDefault();
      zoom(made, Math.pow(1.0015, event.deltaY), event.offsetX / made.over.clientWidth, least);
    }, {passive: false});
    new ResizeObserver(() => made.setSize({width: place.clientWidth, height: made.height}))
      .observe(place);
    window.matchMedia("(prefers-color-scheme: dark)")
      .addEventListener("change", () => made.redraw(false, true));
    return made;
  }

  return {data, colour, element, Table, view, zoom, chart, charts: {}};  // charts: for tests
})();
