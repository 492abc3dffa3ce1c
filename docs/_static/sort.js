// A click on the head of a column sorts the rows by it, by numbers where there are any; a second click turns them round.
// What is no number, such as the dash of what was not measured, comes last both times.
const value = (row, column) => {
  const text = row.cells[column].textContent.trim();
  const number = parseFloat(text.replace("−", "-").replaceAll(",", ""));
  return Number.isNaN(number) ? text : number;
};

function sort(head) {
  const rows = [...head.closest("table").tBodies[0].rows], of = (row) => value(row, head.cellIndex);
  const numbers = rows.filter((row) => typeof of(row) === "number").sort((a, b) => of(a) - of(b));
  const texts = rows.filter((row) => typeof of(row) === "string").sort((a, b) => of(a).localeCompare(of(b)));
  const descending = head.getAttribute("aria-sort") === "ascending";
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  if (descending) [numbers, texts].forEach((some) => some.reverse());
  [...numbers, ...texts].forEach((row) => row.parentElement.append(row));
}

for (const head of document.querySelectorAll(".sortable th")) {
  head.tabIndex = 0;
  head.addEventListener("click", () => sort(head));
  head.addEventListener("keydown", (event) => event.key === "Enter" && sort(head));
}
