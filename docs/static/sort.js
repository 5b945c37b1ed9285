// The headings of a table, but for the last, become buttons that sort its rows. A second press on
// one turns the order round.
const order = new Intl.Collator("en", { numeric: true });

for (const table of document.querySelectorAll(".sortable table")) {
  for (const heading of table.querySelectorAll("th:not(:last-child)")) {
    const button = document.createElement("button");
    button.append(...heading.childNodes);
    button.onclick = () => sortBy(table, heading);
    heading.append(button);
  }
}

function sortBy(table, heading) {
  const isAscending = heading.getAttribute("aria-sort") !== "ascending";
  for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", isAscending ? "ascending" : "descending");

  const text = row => row.cells[heading.cellIndex].textContent;
  const body = table.tBodies[0];
  const rows = [...body.rows].sort((a, b) => order.compare(text(a), text(b)));
  body.append(...(isAscending ? rows : rows.reverse()));
}
