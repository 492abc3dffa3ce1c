"use strict";

// What the reader may do: choose a picture or a photo, move sliders, choose the models to compare.

const ofClass = () => {
  const label = $("class").value;
  const all = Array.from({ length: about.images }, (_, number) => number);
  return label === "" ? all : all.filter((number) => about.labels[number] === Number(label));
};

function choose(number) {
  image = Math.min(Math.max(Math.round(number) || 0, 0), about.images - 1);
  photo = null;
  if (about.labels[image] !== Number($("class").value)) $("class").value = "";
  $("number").value = image;
  $("clean").src = address(image);
  chosen();
}

function chosen() {
  const numbers = ofClass();
  showStrip(numbers, Math.max(numbers.indexOf(image), 0));
  changed();
}

// A picture further on, among those of the class, by whole strips.
function leaf(strips) {
  const numbers = ofClass();
  const place = Math.max(numbers.indexOf(image), 0) + strips * STRIP;
  choose(numbers[Math.min(Math.max(place, 0), numbers.length - 1)]);
}

async function take(file) {
  try {
    const most = about.largest_photo;
    if (file.size > most) throw new Error(`a photo may have ${Math.floor(most / 1e6)} MB: make it smaller`);
    photo = await sent("/photo", "application/octet-stream", file);
    image = null;
    $("clean").src = photo.view;
    $("number").value = "";
    chosen();
  } catch (error) {
    $("wrong").textContent = error.message;
  }
}

function changed() {
  sliders.forEach(showPosition);
  // The address holds the state: what follows # leads to the same picture at the next start, too.
  const state = new URLSearchParams({ ...(image === null ? {} : { image }), ...changes() });
  if (about.models.length > 1) state.set("models", [...compared].sort((a, b) => a - b).join("-"));
  history.replaceState(null, "", `#${state}`);
  ask();
}

function reset() {
  for (const slider of sliders.values()) move(slider, slider.about.start);
  changed();
}

const box = (number) => $("compare").querySelectorAll("input")[number];

async function compare(number, shown) {
  const choice = box(number).closest("label");
  box(number).checked = shown;
  try {
    if (shown && !about.models[number].embedded) {
      await embed(number, (words) => (choice.querySelector(".progress").textContent = words));
    }
    if (box(number).checked) {
      if (!models.has(number)) buildModel(number, about.models[number]);
      compared.add(number);
    } else compared.delete(number);
    if (models.has(number)) models.get(number).article.hidden = !compared.has(number);
    changed();
  } catch (error) {
    box(number).checked = false;
    $("wrong").textContent = error.message;
  }
}

function fromAddress() {
  const state = new URLSearchParams(location.hash.slice(1));
  for (const [name, slider] of sliders) move(slider, state.get(name) ?? slider.about.start);
  const numbers = about.models.map((_, number) => number);
  const named = state.has("models") ? state.get("models").split("-").map(Number) : null;
  const asked = named?.filter((number) => numbers.includes(number)) ?? numbers.filter((n) => about.models[n].embedded);
  choose(Number(state.get("image")));
  for (const number of numbers) {
    if (asked.includes(number) !== compared.has(number)) compare(number, asked.includes(number));
  }
}

// ---- building, once

function buildChoice({ name }, number) {
  const choice = copy("choice");
  choice.querySelector(".name").textContent = name;
  const input = choice.querySelector("input");
  input.addEventListener("change", () => compare(number, input.checked));
  $("compare").append(choice);
}

function acceptPhotos() {
  $("photo").addEventListener("change", () => {
    if ($("photo").files.length) take($("photo").files[0]);
    $("photo").value = ""; // the same file may be chosen again
  });
  const dragging = (event, inside) => {
    event.preventDefault(); // or else the browser would open the file
    document.body.classList.toggle("dragging", inside);
  };
  document.addEventListener("dragover", (event) => dragging(event, true));
  document.addEventListener("dragleave", (event) => dragging(event, false));
  document.addEventListener("drop", (event) => {
    dragging(event, false);
    const [file] = event.dataTransfer.files;
    if (file) take(file);
  });
}

async function begin() {
  about = await received(fetch(at("/about")));
  document.title = `${about.data} – care explore`;
  $("about").textContent = `${about.images.toLocaleString("en")} pictures of ${about.data}`;
  about.sliders.forEach((slider) => buildSlider(slider, changed));
  about.models.forEach(buildChoice);
  $("compare").hidden = about.models.length < 2;
  for (let i = 0; i < STRIP; i++) buildTile($("strip")).querySelector(".kind").remove();
  about.classes.forEach((name, label) => $("class").add(new Option(name, label)));
  $("of-class").hidden = about.classes.length < 2;
  $("class").addEventListener("change", () => choose(ofClass()[0] ?? 0));
  $("number").max = about.images - 1;
  $("number").addEventListener("change", () => choose(Number($("number").value)));
  $("earlier").addEventListener("click", () => leaf(-1));
  $("later").addEventListener("click", () => leaf(1));
  $("random").addEventListener("click", () => choose(ofClass()[Math.floor(Math.random() * ofClass().length)]));
  $("reset").addEventListener("click", reset);
  acceptPhotos();
  window.addEventListener("hashchange", fromAddress);
  fromAddress();
}

begin().catch((error) => {
  $("wrong").textContent = error.message;
});
