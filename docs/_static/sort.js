// A click on the head of a column sorts the rows by it, by numbers where there are any; a second click turns them round.
const value = (row, column) => {
  const text = row.cells[column].textContent.trim();
  const number = parseFloat(text.replace("−", "-").replaceAll(",", ""));
  return Number.isNaN(number) ? text : number;
};

const before = (a, b) =>
  typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));

function sort(head) {
  const rows = head.closest("table").tBodies[0].rows;
  const descending = head.getAttribute("aria-sort") === "ascending";
  const sorted = [...rows].sort((a, b) => before(value(a, head.cellIndex), value(b, head.cellIndex)));
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  (descending ? sorted.reverse() : sorted).forEach((row) => row.parentElement.append(row));
}

for (const head of document.querySelectorAll(".sortable th")) {
  head.tabIndex = 0;
  head.addEventListener("click", () => sort(head));
  head.addEventListener("keydown", (event) => event.key === "Enter" && sort(head));
}
