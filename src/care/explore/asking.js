"use strict";

// What the page knows, and how it asks the server: one question at a time, then the newest; positions in between are
// skipped. Everything is set as text: no name of a class or of a run can become markup.
const $ = (id) => document.getElementById(id);
const copy = (id) => $(id).content.firstElementChild.cloneNode(true);

const token = new URLSearchParams(location.search).get("token");
const at = (path) => `${path}?${new URLSearchParams({ token })}`;
const address = (number) => at(`/image/${number}.png`);

let about; // the data, the models and the sliders, from the server
let image = 0; // the number of the picture, null while it is a photo
let photo = null; // {photo, view}: its number, and how it looks
const sliders = new Map(); // by the name of the change: {about, input, value}
const models = new Map(); // by the number of the model: {article, cells, places}, of those that were ever shown
const compared = new Set(); // the numbers of those that are shown

let wanted = false;
let asking = false;

async function ask() {
  wanted = true;
  if (asking) return;
  asking = true;
  while (wanted) {
    wanted = false;
    const asked = image ?? photo;
    const numbers = [...compared].sort((a, b) => a - b);
    const query = image === null ? { photo: photo.photo } : { image };
    try {
      const started = performance.now();
      const answer = await posted("/answer", { ...query, changes: changes(), models: numbers });
      // An answer for a picture that is no longer chosen is dropped. While a slider moves, every answer is shown.
      if (asked === (image ?? photo)) show(answer, numbers, Math.round(performance.now() - started));
    } catch (error) {
      $("wrong").textContent = error.message;
    }
  }
  asking = false;
}

const posted = (path, value) => sent(path, "application/json", JSON.stringify(value));

async function sent(path, kind, body) {
  return received(fetch(at(path), { method: "POST", headers: { "Content-Type": kind }, body }));
}

async function received(request) {
  const response = await request.catch(() => {
    throw new Error("care explore does not answer: is it still running in its terminal?");
  });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

const position = ({ input }) => (input.type === "checkbox" ? Number(input.checked) : Number(input.value));

function move({ input }, value) {
  if (input.type === "checkbox") input.checked = Number(value) === 1;
  else input.value = value;
}

function changes() {
  const found = {};
  for (const [name, slider] of sliders) {
    if (position(slider) !== slider.about.start) found[name] = position(slider);
  }
  return found;
}

// Have a model embed the pictures, which may take minutes; `watch` is told how far it is.
async function embed(number, watch) {
  const polling = setInterval(async () => {
    const { progress } = await received(fetch(at("/progress"))).catch(() => ({}));
    if (progress) watch(`${Math.floor((100 * progress[1]) / progress[2])} %`);
  }, 400);
  watch("embedding …");
  try {
    about.models[number] = await posted("/embed", { model: number });
  } finally {
    clearInterval(polling);
    watch("");
  }
}
