// SPDX-License-Identifier: BSD-2-Clause
// memory_page.js: a click on an instruction draws its points over the picture, whose others become
// paler. The points are JSON in the element #data, by memory_points.py, in the order of the page's
// table.
"use strict";
(function () {
  document.querySelectorAll("table[data-table]").forEach((table) => tables.sortable(table, () => {}));
  const data = JSON.parse(document.getElementById("data").textContent);
  const section = document.getElementById("points");
  if (!section) return;
  const plot = document.getElementById("addresses-plot");
  const words = document.getElementById("chosen"), every = document.getElementById("every");
  const rows = Array.from(section.querySelectorAll("tbody tr"));
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("class", "points");
  plot.ownerSVGElement.append(path);

  // Lines without a length: their round ends are the points.
  function drawn({columns, rows, cells}) {
    const box = plot.getBBox(), out = [];
    let column = 0;
    for (let i = 0; i < cells.length; i += 2) {
      column += cells[i];
      const x = box.x + (column + 0.5) / columns * box.width;
      const y = box.y + (1 - (cells[i + 1] + 0.5) / rows) * box.height;
      out.push("M" + x.toFixed(2) + " " + y.toFixed(2) + "h0");
    }
    return out.join("");
  }

  // null: all points are as they were.
  function choose(chosen) {
    rows.forEach(function (row) {
      row.classList.toggle("chosen", row === chosen);
      row.querySelector("button").setAttribute("aria-pressed", row === chosen);
    });
    const found = chosen && data[Number(chosen.dataset.number)];
    path.setAttribute("d", found ? drawn(found) : "");
    words.textContent = found ?
      Array.from(chosen.cells, (cell) => cell.textContent).slice(0, -1).filter(Boolean).join(", ") +
      ": " + found.words : "";
    every.disabled = !chosen;
    if (chosen) section.dataset.chosen = ""; else delete section.dataset.chosen;
    if (chosen) section.querySelector(".picture").scrollIntoView({block: "nearest"});
  }

  rows.forEach(function (row) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "point";
    button.append(...row.cells[0].childNodes);
    row.cells[0].append(button);
    row.addEventListener("click", () => choose(row.classList.contains("chosen") ? null : row));
  });
  every.addEventListener("click", () => choose(null));
  choose(null);
})();
