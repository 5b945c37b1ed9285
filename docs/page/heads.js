// Heatmaps of what each head sees, with a slider for everything that decides it.
import { LAWS } from "./model.js";
import { $, announce, calm, data, el, fillTable, say } from "./tools.js";

const NEAR = 8;  // letters
const GLIDE = 300;  // milliseconds from the picture of one law to that of another
const PAUSE = { heads: 500, query: 120 };  // milliseconds between two steps of a slider that plays
const PALETTE = data.colors.map(rgba);
const playing = {};
let drawings = 0;  // of `drawHeads` so far: a newer one ends a glide
let painted = [];  // for each head, the weights left at each distance, as its picture shows them

/** A color as canvas stores it: four bytes, red first. */
function rgba(hexadecimal) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(hexadecimal.slice(at, at + 2), 16));
  const bytes = Uint8Array.of(red, green, blue, 255);
  return new Uint32Array(bytes.buffer)[0];
}

/** Paint the weights left at each distance as a matrix. Keys after the query stay transparent. */
function paint(canvas, left) {
  const size = left.length;
  canvas.width = size;
  canvas.height = size;
  const context = canvas.getContext("2d");
  const image = context.createImageData(size, size);
  const pixels = new Uint32Array(image.data.buffer);
  const colors = left.map((weight) => PALETTE[Math.round(Math.min(weight, 1) * (PALETTE.length - 1))]);
  for (let query = 0; query < size; query++) {
    for (let key = 0; key <= query; key++) pixels[query * size + key] = colors[query - key];
  }
  context.putImageData(image, 0, 0);
}

function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

/** Paint the pictures of all heads. */
function paintAll(lefts) {
  lefts.forEach((left, n) => paint($("grid").children[n].querySelector("canvas"), left));
  painted = lefts;
}

/** Weights that have gone a share of the way from some to others. */
function between(from, to, share) {
  return to.map((weight, distance) => from[distance] + share * (weight - from[distance]));
}

/** Turn the pictures of one law into those of another, so that one sees what becomes of each weight. */
function glide(from, to) {
  const drawing = drawings;
  const begin = performance.now();
  function paintFrame(now) {
    if (drawing !== drawings) return;
    const done = Math.min(Math.max(now - begin, 0) / GLIDE, 1);
    paintAll(to.map((left, head) => between(from[head], left, done)));
    if (done < 1) requestAnimationFrame(paintFrame);
  }
  requestAnimationFrame(paintFrame);
}

/** Answer a choice of another law: nothing else has changed, so its pictures grow out of those before. */
export function changeLaw() {
  const before = painted;
  drawHeads();
  if (!calm) glide(before, painted);
}

export function drawHeads() {
  drawings++;
  const heads = Number($("heads").value);
  const length = Number($("length").value);
  const law = $("law").value;
  const query = Math.min(Number($("query").value), length);
  $("query").max = length;
  for (const [id, value] of Object.entries({ heads, length, query })) say(`${id}-value`, `${value}`);
  arrangeGrid(heads, length, query);

  const distances = [0, 1, 2, 4, 8, 16, 32].filter((distance) => distance < query);
  const nearest = [];
  const numbers = [];
  const lefts = [];
  for (let head = 1; head <= heads; head++) {
    // 1 at distance 0
    const left = Array.from({ length }, (_, distance) => Math.exp(LAWS[law](distance, head, heads)));
    const row = left.slice(0, query);
    const total = sum(row);
    const near = Math.round((100 * sum(row.slice(0, NEAR))) / total);
    const [plot, caption] = $("grid").children[head - 1].children;
    plot.firstChild.setAttribute("aria-label", `Head ${head}: query ${query} gives ${near}% of its weight to the ${NEAR} nearest letters`);
    caption.replaceChildren(el("span", { class: "word" }, "head "), `${head}: ${near}%`);
    lefts.push(left);
    nearest.push(near);
    numbers.push([`head ${head}`, ...distances.map((distance) => `${((100 * row[distance]) / total).toFixed(1)}%`)]);
  }
  paintAll(lefts);
  // Nobody reads a closed table, and it would slow a slider down.
  if ($("heads-numbers").open) fillTable("heads-table", ["distance", ...distances], numbers);
  announce("heads-caption", captionOf(nearest));
}

function captionOf(nearest) {
  const low = Math.min(...nearest);
  const high = Math.max(...nearest);
  const share = low === high ? `${low}%` : `between ${low}% and ${high}%`;
  const heads = nearest.length === 1 ? "the head gives" : "each head gives";
  return `If all letters match equally well, ${heads} ${share} of the framed query's weight to its ${NEAR} nearest letters, `
    + "as written below each picture.";
}

/** As many figures as heads, in rows of four or eight, with a frame around the row of the query. */
function arrangeGrid(heads, length, query) {
  const grid = $("grid");
  grid.style.setProperty("--row", query - 1);
  grid.style.setProperty("--rows", length);
  let columns = heads > 8 ? 8 : 4;
  if (heads === 1) columns = 1;
  grid.style.setProperty("--columns", columns);
  grid.classList.toggle("many", heads > 8);
  while (grid.children.length > heads) grid.lastChild.remove();
  while (grid.children.length < heads) {
    grid.append(el("figure", {}, el("div", { class: "plot" }, el("canvas", { role: "img" })), el("figcaption")));
  }
}

/** Choose the query whose row was clicked. */
export function chooseQuery(event) {
  if (event.target.tagName !== "CANVAS") return;
  const box = event.target.getBoundingClientRect();
  const row = Math.floor(((event.clientY - box.top) / box.height) * event.target.height);
  $("query").value = row + 1;
  drawHeads();
}

/** Start or pause a slider that moves by itself, from its end back to its start. */
export function togglePlay(button) {
  const id = button.dataset.plays;
  const isPlaying = id in playing;
  button.setAttribute("aria-pressed", !isPlaying);
  button.textContent = isPlaying ? "▶" : "⏸";
  if (isPlaying) {
    clearInterval(playing[id]);
    delete playing[id];
    return;
  }
  playing[id] = setInterval(() => {
    const slider = $(id);
    const isAtEnd = slider.value === slider.max;
    slider.value = isAtEnd ? slider.min : Number(slider.value) + 1;
    drawHeads();
  }, PAUSE[id]);
}
