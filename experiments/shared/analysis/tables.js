// SPDX-License-Identifier: BSD-2-Clause
// tables.js: a click on the head of a column sorts a table's rows by it. The pages of the traces have
// it inside.
"use strict";
const tables = (function () {
  // What a cell sorts by: a number, where it is one; else its text.
  function value(row, column) {
    const text = row.cells[column].textContent, number = Number(text);
    return text.trim() === "" || Number.isNaN(number) ? text : number;
  }

  function compare(one, other) {
    if (typeof one !== typeof other) return typeof one === "number" ? 1 : -1;
    return typeof one === "number" ? one - other : one.localeCompare(other, "en", {numeric: true});
  }

  const written = new Map();  // table -> its rows in the page's own order

  // Puts the rows in order; those that are equal keep theirs. Column -1: the page's own order.
  function sort(table, column, up) {
    const rows = written.get(table).map((row) => [column < 0 ? 0 : value(row, column), row]);
    rows.sort((one, other) => (up ? 1 : -1) * compare(one[0], other[0]));
    table.tBodies[0].append(...rows.map((row) => row[1]));
    Array.from(table.tHead.rows[0].cells, (head, i) => {
      if (i === column) head.setAttribute("aria-sort", up ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    table.dataset.sort = column < 0 ? "" : column + (up ? "u" : "d");
  }

  // Sorts by what `sort` left in the table's data, or by what was put there instead.
  function again(table) {
    const found = /^(\d+)([ud])$/.exec(table.dataset.sort || "");
    const column = found ? Number(found[1]) : -1;
    sort(table, column < table.tHead.rows[0].cells.length ? column : -1, found && found[2] === "u");
  }

  // Makes the heads of its columns buttons. The first click has the largest number, or the first text,
  // on top; the next one turns it round. `changed` is called after each.
  function sortable(table, changed) {
    written.set(table, Array.from(table.tBodies[0].rows));
    Array.from(table.tHead.rows[0].cells, function (head, column) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", function () {
        const first = table.tBodies[0].rows[0], before = head.getAttribute("aria-sort");
        const text = first && typeof value(first, column) === "string";
        sort(table, column, before ? before === "descending" : text);
        changed();
      });
    });
  }

  return {sort: sort, again: again, sortable: sortable};
})();
