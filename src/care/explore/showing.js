"use strict";

// How answers are shown, and the parts that show them, which are built once.
const STRIP = 24; // pictures to choose from at once
const MEASURES = [
  ["Cosine with f(a(x))", (point) => point.cosine.toFixed(3)],
  ["Neighbors shared with f(a(x))", (point) => `${point.shared} of ${point.neighbors.length}`],
  ["Neighbors of the class", (point) => (point.same === null ? "–" : `${point.same} of ${point.neighbors.length}`)],
  ["Hue distance to a(x)", (point) => decimals(point.hue_distance)],
];

const decimals = (number) => (number === null ? "–" : number.toFixed(2));
const kindOf = (number) => about.classes[about.labels[number]];

function show(answer, numbers, milliseconds) {
  $("kind").textContent = image === null ? "your photo" : (answer.kind ?? "");
  $("augmented").src = answer.view;
  $("what").textContent = answer.what === "identity" ? "No augmentation." : answer.what;
  answer.models.forEach((model, i) => showModel(models.get(numbers[i]), model));
  $("time").textContent = `answered in ${milliseconds} ms`;
  $("wrong").textContent = "";
}

function showModel({ article, cells, places }, model) {
  const truth = new Set(model.augmented.neighbors.map((neighbor) => neighbor.image));
  for (const [name, row] of cells) {
    if (model[name]) MEASURES.forEach(([, measure], i) => (row[i].textContent = measure(model[name])));
  }
  for (const [name, tiles] of places) {
    model[name]?.neighbors.forEach((neighbor, i) =>
      showNeighbor(tiles[i], neighbor, name !== "augmented" && truth.has(neighbor.image)),
    );
  }
  article.querySelector(".caveats").textContent = model.caveats.join(" ");
}

function showNeighbor(tile, neighbor, shared) {
  const [picture, kind] = tile.children;
  if (tile.dataset.image !== String(neighbor.image)) picture.src = address(neighbor.image);
  tile.dataset.image = neighbor.image;
  kind.textContent = (neighbor.same ? "✓ " : "") + (neighbor.kind ?? `${neighbor.image}`);
  kind.classList.toggle("same", neighbor.same === true);
  kind.classList.toggle("shared", shared);
  const words = [`picture ${neighbor.image}`, neighbor.kind, `cosine ${neighbor.cosine.toFixed(3)}`];
  if (neighbor.hue_distance !== null) words.push(`hue distance ${decimals(neighbor.hue_distance)}`);
  tile.title = words.filter(Boolean).join(", ");
  picture.alt = tile.title;
}

// Some of `numbers`, the pictures to choose from: those around the one at `place`.
function showStrip(numbers, place) {
  const first = Math.floor(place / STRIP) * STRIP;
  [...$("strip").children].forEach((item, i) => {
    const [button] = item.children;
    const [picture] = button.children;
    const number = numbers[first + i];
    item.hidden = number === undefined;
    if (item.hidden) return;
    if (button.dataset.image !== String(number)) picture.src = address(number);
    button.dataset.image = number;
    button.title = picture.alt = [`picture ${number}`, kindOf(number)].filter(Boolean).join(", ");
    if (number === image) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  });
}

function showPosition({ about, input, value }) {
  const signed = about.start === 0 && about.low < 0 && input.value > 0 ? "+" : "";
  value.textContent = about.switch ? "" : (signed + Number(input.value).toFixed(2)).replace("-", "−");
  if (!about.switch) input.setAttribute("aria-valuetext", value.textContent);
}

// ---- building, once

function buildSlider(about, moved) {
  const slider = copy("slider");
  const input = slider.querySelector("input");
  const value = slider.querySelector(".value");
  slider.querySelector(".label").textContent = about.label;
  const range = { type: "range", min: about.low, max: about.high, step: about.step };
  Object.assign(input, { id: `slider-${about.name}` }, about.switch ? { type: "checkbox" } : range);
  sliders.set(about.name, { about, input, value });
  move(sliders.get(about.name), about.start);
  input.addEventListener("input", moved);
  $("sliders").append(slider);
}

function buildModel(number, { name, learned_rotation, note }) {
  const article = copy("model");
  article.dataset.model = number;
  article.querySelector("h2").textContent = name;
  article.querySelector(".about").textContent = note;
  const cells = new Map(["clean", "learned_rotation", "augmented"].map((point) => [point, []]));
  for (const [title] of MEASURES) {
    const row = article.querySelector("tbody").insertRow();
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = title;
    row.append(head);
    for (const [point, column] of cells) {
      column.push(row.insertCell());
      column.at(-1).classList.toggle("learned-rotation", point === "learned_rotation");
    }
  }
  const places = new Map();
  for (const list of article.querySelectorAll(".neighbors")) {
    places.set(list.dataset.point, Array.from({ length: about.k }, () => buildTile(list)));
  }
  if (!learned_rotation) article.querySelectorAll(".learned-rotation").forEach((part) => part.remove());
  models.set(number, { article, cells, places });
  const after = [...$("models").children].find((other) => Number(other.dataset.model) > number);
  $("models").insertBefore(article, after ?? null);
}

function buildTile(list) {
  const item = copy("neighbor");
  const tile = item.firstElementChild;
  tile.addEventListener("click", () => choose(Number(tile.dataset.image)));
  list.append(item);
  return tile;
}
