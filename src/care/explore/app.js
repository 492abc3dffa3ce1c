"use strict";

// Everything is set as text: no name of a class or of a run can become markup.
const $ = (id) => document.getElementById(id);
const copy = (id) => $(id).content.firstElementChild.cloneNode(true);

const STRIP = 24; // pictures to choose from at once
const MEASURES = [
  ["Cosine with f(a(x))", (point) => point.cosine.toFixed(3)],
  ["Neighbors shared with f(a(x))", (point) => `${point.shared} of ${point.neighbors.length}`],
  ["Neighbors of the class", (point) => (point.same === null ? "–" : `${point.same} of ${point.neighbors.length}`)],
  ["Hue distance to a(x)", (point) => decimals(point.hue_distance)],
];

let about; // the data, the models and the sliders, from the server
let image = 0;
const sliders = new Map(); // by the name of the change: {about, input, value}
const models = []; // {cells, places}, in the order of the server's

const decimals = (number) => (number === null ? "–" : number.toFixed(2));
const address = (number) => `/image/${number}.png?${about.version}`;

// ---- asking: one question at a time, then the newest; positions in between are skipped

let wanted = false;
let asking = false;

async function ask() {
  wanted = true;
  if (asking) return;
  asking = true;
  while (wanted) {
    wanted = false;
    const question = { image, changes: changes() };
    try {
      const started = performance.now();
      const answer = await posted("/answer", question);
      // An answer for a picture that is no longer chosen is dropped. While a slider moves, every answer is shown.
      if (question.image === image) show(answer, Math.round(performance.now() - started));
    } catch (error) {
      $("wrong").textContent = error.message;
    }
  }
  asking = false;
}

async function posted(path, value) {
  const request = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) };
  return received(fetch(path, request));
}

async function received(request) {
  const response = await request.catch(() => {
    throw new Error("care explore does not answer: is it still running in its terminal?");
  });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

function changes() {
  const found = {};
  for (const [name, { about, input }] of sliders) {
    if (Number(input.value) !== about.start) found[name] = Number(input.value);
  }
  return found;
}

// ---- showing

function show(answer, milliseconds) {
  $("kind").textContent = answer.kind ?? "";
  $("augmented").src = answer.view;
  $("what").textContent = answer.what === "identity" ? "No augmentation." : answer.what;
  answer.models.forEach((model, i) => showModel(models[i], model));
  $("time").textContent = `answered in ${milliseconds} ms`;
  $("wrong").textContent = "";
}

function showModel({ cells, places }, model) {
  const predicted = model.learned_rotation && new Set(model.learned_rotation.neighbors.map((n) => n.image));
  const both = new Set(model.augmented.neighbors.map((n) => n.image).filter((n) => predicted?.has(n)));
  for (const [name, row] of cells) {
    if (model[name]) MEASURES.forEach(([, measure], i) => (row[i].textContent = measure(model[name])));
  }
  for (const [name, tiles] of places) {
    model[name]?.neighbors.forEach((neighbor, i) => showNeighbor(tiles[i], neighbor, both.has(neighbor.image)));
  }
}

function showNeighbor(tile, neighbor, both) {
  const [picture, kind] = tile.children;
  if (tile.dataset.image !== String(neighbor.image)) picture.src = address(neighbor.image);
  tile.dataset.image = neighbor.image;
  kind.textContent = (neighbor.same ? "✓ " : "") + (neighbor.kind ?? `${neighbor.image}`);
  kind.classList.toggle("same", neighbor.same === true);
  kind.classList.toggle("shared", both);
  const words = [`picture ${neighbor.image}`, neighbor.kind, `cosine ${neighbor.cosine.toFixed(3)}`];
  if (neighbor.hue_distance !== null) words.push(`hue distance ${decimals(neighbor.hue_distance)}`);
  tile.title = words.filter(Boolean).join(", ");
  picture.alt = tile.title;
}

function showStrip() {
  const first = Math.floor(image / STRIP) * STRIP;
  [...$("strip").children].forEach((item, i) => {
    const [button] = item.children;
    const [picture] = button.children;
    const number = first + i;
    item.hidden = number >= about.images;
    if (!item.hidden && button.dataset.image !== String(number)) picture.src = address(number);
    button.dataset.image = number;
    picture.alt = `picture ${number}`;
    if (number === image) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  });
}

// ---- changing

function choose(number) {
  image = Math.min(Math.max(Math.round(number) || 0, 0), about.images - 1);
  $("number").value = image;
  $("clean").src = address(image);
  showStrip();
  changed();
}

function changed() {
  for (const { about, input, value } of sliders.values()) {
    const signed = about.start === 0 && input.value > 0 ? "+" : "";
    value.textContent = (signed + Number(input.value).toFixed(2)).replace("-", "−");
    input.setAttribute("aria-valuetext", value.textContent);
  }
  // The address holds the state, so that it can be bookmarked and shared.
  const state = new URLSearchParams({ image, ...changes() });
  history.replaceState(null, "", `#${state}`);
  ask();
}

function reset() {
  for (const { about, input } of sliders.values()) input.value = about.start;
  changed();
}

function fromAddress() {
  const state = new URLSearchParams(location.hash.slice(1));
  for (const [name, { about, input }] of sliders) input.value = state.get(name) ?? about.start;
  choose(Number(state.get("image")));
}

// ---- building, once

function buildSlider(about) {
  const slider = copy("slider");
  const input = slider.querySelector("input");
  const value = slider.querySelector(".value");
  slider.querySelector(".label").textContent = about.label;
  Object.assign(input, { id: `slider-${about.name}`, min: about.low, max: about.high, step: about.step });
  input.value = about.start;
  input.addEventListener("input", changed);
  sliders.set(about.name, { about, input, value });
  $("sliders").append(slider);
}

function buildModel({ name, learned_rotation, note }) {
  const model = copy("model");
  model.querySelector("h2").textContent = name;
  model.querySelector(".note").textContent = note;
  const cells = new Map(["clean", "learned_rotation", "augmented"].map((point) => [point, []]));
  for (const [title] of MEASURES) {
    const row = model.querySelector("tbody").insertRow();
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
  for (const list of model.querySelectorAll(".neighbors")) {
    places.set(list.dataset.point, Array.from({ length: about.k }, () => buildTile(list)));
  }
  if (!learned_rotation) model.querySelectorAll(".learned-rotation").forEach((part) => part.remove());
  models.push({ cells, places });
  $("models").append(model);
}

function buildTile(list) {
  const item = copy("neighbor");
  const tile = item.firstElementChild;
  tile.addEventListener("click", () => choose(Number(tile.dataset.image)));
  list.append(item);
  return tile;
}

async function begin() {
  about = await received(fetch("/about"));
  document.title = `${about.data} – care explore`;
  $("about").textContent = `${about.images.toLocaleString("en")} pictures of ${about.data}`;
  about.sliders.forEach(buildSlider);
  about.models.forEach(buildModel);
  for (let i = 0; i < STRIP; i++) buildTile($("strip")).querySelector(".kind").remove();
  $("number").max = about.images - 1;
  $("number").addEventListener("change", () => choose(Number($("number").value)));
  $("earlier").addEventListener("click", () => choose(image - STRIP));
  $("later").addEventListener("click", () => choose(image + STRIP));
  $("random").addEventListener("click", () => choose(Math.floor(Math.random() * about.images)));
  $("reset").addEventListener("click", reset);
  window.addEventListener("hashchange", fromAddress);
  fromAddress();
}

begin().catch((error) => {
  $("wrong").textContent = error.message;
});
