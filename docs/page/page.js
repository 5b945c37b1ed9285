// The page: three trained models write, two new ones train, and heatmaps follow their sliders. Text is only ever set as
// textContent, so nothing that a reader types or a model writes can become markup.
import { LAWS, Model } from "./model.js";
import { LENGTHS, write } from "./worker.js";

const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
const MODELS = { alibi: "ALiBi", rotary: "rotary", sinusoidal: "sinusoidal" };

/** A new element with attributes and children; strings become text. */
function el(tag, attributes = {}, ...children) {
  const svg = ["svg", "path", "line", "text", "circle", "rect", "g"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** The share of words of three or more letters that are known; NaN without words. */
function knownWords(texts, known) {
  const words = texts.flatMap((text) => text.match(/[^A-Za-z][A-Za-z]{3,}(?=[^A-Za-z])/g) ?? []);
  return words.filter((word) => known.has(word.slice(1))).length / words.length;
}

/** Show a text: the beginning paler, then what is within the training length, then what is beyond, behind a red line. */
function showText(pre, beginning, written, within, known) {
  const before = beginning + written.slice(0, within), parts = written.slice(within).split(/([A-Za-z]{3,})/);
  const beyond = el("span", { class: "beyond" });
  parts.forEach((part, n) => {  // words are the odd parts; the line or the end may have cut the first and the last
    const isCut = (n === 1 && !parts[0] && /[A-Za-z]$/.test(before)) || (n === parts.length - 2 && !parts.at(-1));
    const isWrong = n % 2 && !isCut && !known.has(part);
    beyond.append(isWrong ? el("s", { title: "not a word of the tales" }, part) : part);
  });
  pre.replaceChildren(el("span", { class: "given" }, beginning), written.slice(0, within), beyond);
}

// 1. Trained models write.

/** A published model from its weights in half precision. */
function loadModel(name) {
  const { config, weights } = data.models[name], model = new Model(config);
  const bytes = Uint8Array.from(atob(weights), (c) => c.charCodeAt(0)), view = new DataView(bytes.buffer);
  for (let i = 0; i < model.weights.length; i++) model.weights[i] = half(view.getUint16(2 * i, true));
  return model;
}

/** The number that 16 bits stand for (IEEE 754). */
function half(bits) {
  const exponent = (bits >> 10) & 31, fraction = bits & 1023, sign = bits >> 15 ? -1 : 1;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : (2 ** -14 * fraction) / 1024);
}

const known = new Set(data.words);
const loaded = {};
let writing = 0;  // the number of the latest request: earlier ones end
let seed = 1;

/** Let the three models continue what stands in the box. */
function startWriting() {
  const request = ++writing, beginning = $("beginning").value || " ";
  const prompt = new TextEncoder().encode(beginning), count = Number($("count").value);
  const changes = { seed, scale: 2 ** Number($("scale").value), cut: Number($("cut").value) };
  $("scale-value").textContent = `× ${changes.scale}`;
  const lanes = Object.keys(MODELS).map((name) => {
    loaded[name] ??= loadModel(name);
    const text = write(loaded[name], prompt, count, name === "alibi" ? changes : { seed, cut: changes.cut });
    return { pre: $(`written-${name}`), note: $(`note-${name}`), text, bytes: [] };
  });
  const within = Math.max(0, data.length - prompt.length);
  const step = () => {
    if (request !== writing) return;
    const until = performance.now() + (calm ? 100 : 12);
    let busy = true;
    while (busy && performance.now() < until) {
      busy = false;
      for (const lane of lanes) {
        const { value, done } = lane.text.next();
        busy ||= !done;
        if (!done && value !== null) lane.bytes.push(value);
      }
    }
    for (const { pre, note, bytes } of calm && busy ? [] : lanes) {  // without motion, texts appear when they are complete
      const written = new TextDecoder().decode(Uint8Array.from(bytes));
      showText(pre, beginning, written, within, known);
      const share = knownWords([written.slice(within)], known);
      note.textContent = Number.isNaN(share) ? "" : `${Math.round(100 * share)}% of the words after the line are words of the tales`;
    }
    if (busy) requestAnimationFrame(step);
    else announce("live-writing", lanes.map(({ note }, n) => `${Object.values(MODELS)[n]}: ${note.textContent}`).join(". "));
  };
  step();
}

/** Change the text of a live region. A text that stays is not announced again. */
function say(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

/** Change the text of a live region once no further change has come for a while: a slider passes many values. */
function announce(id, text) {
  clearTimeout(announce[id]);
  announce[id] = setTimeout(say, 400, id, text);
}

// 2. Two models train.

const race = { workers: [], rows: { alibi: [], sinusoidal: [] } };

function startRace() {
  const guess = document.querySelector('input[name="guess"]:checked')?.value;
  if (!guess) return say("race-caption", "Guess first: which of the two will fall apart?");
  stopRace();
  Object.keys(race.rows).forEach((name) => $(`race-${name}`).replaceChildren());
  const { characters, training, validation, settings } = data.race;
  const ids = new Map([...characters].map((character, n) => [character, n]));
  const encode = (text) => Int32Array.from(text, (character) => ids.get(character) ?? 0);
  const beginning = validation.slice(0, settings.length / 2);
  Object.assign(race, { guess, beginning, rows: { alibi: [], sinusoidal: [] }, started: performance.now() });
  race.known = new Set(training.match(/[A-Za-z]{3,}/g));
  $("train").disabled = !($("stop").disabled = false);
  for (const name of ["alibi", "sinusoidal"]) {
    const worker = new Worker(URL.createObjectURL(new Blob([$("worker").textContent], { type: "text/javascript" })));
    worker.onmessage = ({ data: row }) => addRow(name, row);
    worker.onerror = failRace;
    const config = { ...data.race.config, vocabulary: characters.length, position: name };
    const parts = { training: encode(training), validation: encode(validation), prompt: encode(beginning) };
    worker.postMessage({ config, settings: { ...settings, ...parts, seed: 1, count: 8 * settings.length - beginning.length } });
    race.workers.push(worker);
  }
  drawRace();
}

function failRace() {
  stopRace();
  race.guess = "";
  drawRace();
  say("race-caption", "This browser could not start a worker for training.");
}

function stopRace() {
  race.workers.forEach((worker) => worker.terminate());
  race.workers = [];
  $("train").disabled = !($("stop").disabled = true);
}

function addRow(name, row) {
  race.rows[name].push(row);
  if (Object.values(race.rows).every((rows) => rows.at(-1)?.step === data.race.settings.steps)) stopRace();
  drawRace();
}

function drawRace() {
  const { settings, characters } = data.race, { length, steps } = settings, xs = LENGTHS.map((times) => times * length);
  const series = [];
  for (const [name, rows] of Object.entries(race.rows)) {
    const step = rows.at(-1)?.step ?? 0, tested = rows.findLast((row) => row.losses);
    $(`bar-${name}`).value = step / steps;
    const waiting = race.workers.length ? "starting" : "";
    $(`bar-note-${name}`).textContent = step ? `step ${step} of ${steps}, ${rows.at(-1).seconds.toFixed(0)} s` : waiting;
    if (!tested) continue;
    series.push({ name: MODELS[name], ys: tested.losses, className: name, step: tested.step });
    const texts = tested.texts.map((ids) => ids.map((id) => characters[id]).join(""));
    const within = length - race.beginning.length;
    showText($(`race-${name}`), race.beginning, texts[0], within, race.known);
    race[name] = knownWords(texts.map((text) => text.slice(within)), race.known);
  }
  $("curve").replaceChildren(curve(xs, series, length));
  const ofModels = series.map(({ name, ys }) => [name, ...ys.map((y) => y.toFixed(2))]);
  const ofCounting = Object.entries(data.race.yardsticks).map(([name, bits]) => [`${name} alone`, ...xs.map(() => bits.toFixed(2))]);
  fillTable("race-table", ["bytes", ...xs], series.length ? [...ofModels, ...ofCounting] : []);
  if (race.workers.length) say("race-caption", "Training. Both read the same batches, 32 bytes at a time.");
  else if (series.length === 2 && series.some(({ step }) => step < steps)) say("race-caption",
    `Stopped: ALiBi was tested at step ${series[0].step} of ${steps}, sinusoidal positions at step ${series[1].step}. `
    + "Train to the end to see whether your guess is right.");
  else if (series.length === 2) say("race-caption", outcome(series, xs));
  else if (race.guess) say("race-caption", "Stopped before both models were tested.");
}

/** A number with two digits and its sign; zero has none. */
function signed(number) {
  const digits = Math.abs(number).toFixed(2);
  if (Number(digits) === 0) return digits;
  return `${number > 0 ? "+" : "-"}${digits}`;
}

/** What the race showed, in two sentences. */
function outcome(series, xs) {
  const rises = series.map(({ ys }) => ys.at(-1) - ys[0]);
  const words = ["alibi", "sinusoidal"].map((name) => `${Math.round(100 * (race[name] || 0))}%`);
  const fell = ["alibi", "sinusoidal"].filter((_, at) => rises[at] > 0.5), answer = fell.length ? fell.join() : "neither";
  const right = race.guess === answer ? "You guessed right" : "You guessed wrong";
  const change = rises.map(signed);
  return `${right}: from ${xs[0]} to ${xs.at(-1)} bytes, ALiBi's loss changes by ${change[0]} bits per byte and that of sinusoidal `
    + `positions by ${change[1]}. Past the red line, ${words[0]} of ALiBi's words are words of the tales, and ${words[1]} of the other's.`;
}

/** Curves over a logarithmic axis, with a red line at the training length. */
function curve(xs, series, length) {
  const width = Math.max(300, $("curve").clientWidth), height = 260, left = 44, bottom = 40, top = Math.max(4, ...series.flatMap(({ ys }) => ys)) * 1.08;
  const px = (x) => left + 16 + ((width - left - 32) * Math.log2(x / xs[0])) / Math.log2(xs.at(-1) / xs[0]);
  const py = (y) => height - bottom - ((height - bottom - 16) * y) / top;
  const svg = el("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Loss by text length; the numbers are in the table below" });
  svg.append(el("rect", { x: px(length), y: 10, width: width - 8 - px(length), height: height - bottom - 10, class: "unseen" }));
  for (let y = 0; y < top; y += 2) svg.append(
    el("line", { x1: left, x2: width - 8, y1: py(y), y2: py(y), class: "grid" }), el("text", { x: left - 8, y: py(y) + 4, "text-anchor": "end" }, `${y}`));
  for (const x of xs) svg.append(el("text", { x: px(x), y: height - bottom + 18, "text-anchor": "middle" }, `${x}`));
  svg.append(el("text", { x: width / 2, y: height - 4, "text-anchor": "middle" }, "bytes of text; the loss is in bits per byte"));
  svg.append(el("line", { x1: px(length), x2: px(length), y1: 10, y2: height - bottom, class: "trained" }));
  svg.append(el("text", { x: px(length) + 6, y: 24 }, "longer than in training →"));
  // What models need that only count, beside what was tested: not above the plot, nor at its top, where other words stand. The
  // names of the curves stand at their right ends, so these stand in the middle.
  const middle = (px(xs[0]) + px(xs.at(-1))) / 2;
  for (const [name, bits] of Object.entries(data.race.yardsticks)) {
    if (!series.length || bits > 0.85 * top) continue;
    svg.append(el("line", { x1: left, x2: width - 8, y1: py(bits), y2: py(bits), class: "yardstick" }));
    svg.append(el("text", { x: middle, y: py(bits) - 5, "text-anchor": "middle", class: "small" }, `${name} alone, ${bits.toFixed(2)}`));
  }
  for (const { name, ys, className } of series) {
    const path = ys.map((y, n) => `${n ? "L" : "M"}${px(xs[n])},${py(y)}`).join("");
    svg.append(el("path", { d: path, class: `curve ${className}` }));
    ys.forEach((y, n) => svg.append(el("circle", { cx: px(xs[n]), cy: py(y), r: 4, class: className })));
    svg.append(el("text", { x: px(xs.at(-1)) - 6, y: py(ys.at(-1)) - 10, "text-anchor": "end", class: `label ${className}` }, name));
  }
  return svg;
}

// 3. Heatmaps.

const SCALE = data.colors.map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));

/** A color from white for 0 to brown for 1. */
function color(share) {
  const at = Math.min(share, 1) * (SCALE.length - 1), low = Math.min(Math.floor(at), SCALE.length - 2);
  return SCALE[low].map((from, n) => from + (at - low) * (SCALE[low + 1][n] - from));
}

/** Paint rows of values from 0 to 1; cells after the end of a row stay transparent. */
function paint(canvas, rows) {
  const width = canvas.width = Math.max(...rows.map((row) => row.length)), height = canvas.height = rows.length;
  const context = canvas.getContext("2d"), image = context.createImageData(width, height);
  rows.forEach((row, i) => row.forEach((value, j) => image.data.set([...color(value), 255], 4 * (i * width + j))));
  context.putImageData(image, 0, 0);
}

function drawHeads() {
  const heads = Number($("heads").value), length = Number($("length").value), law = $("law").value;
  const query = Math.min(Number($("query").value), length), grid = $("grid");
  $("query").max = length;
  Object.entries({ heads, length, query }).forEach(([id, value]) => ($(`${id}-value`).textContent = value));
  grid.style.setProperty("--row", query - 1);
  grid.style.setProperty("--rows", length);
  while (grid.children.length > heads) grid.lastChild.remove();
  while (grid.children.length < heads) {
    grid.append(el("figure", {}, el("div", { class: "plot" }, el("canvas", { role: "img" })), el("figcaption")));
  }
  const sum = (values) => values.reduce((a, b) => a + b), distances = [0, 1, 2, 4, 8, 16, 32].filter((distance) => distance < query);
  const nearest = [], numbers = [];
  for (let head = 1; head <= heads; head++) {
    const [plot, caption] = grid.children[head - 1].children;
    const left = Array.from({ length }, (_, distance) => Math.exp(LAWS[law](distance, head, heads)));  // 1 at distance 0
    const row = left.slice(0, query), near = Math.round((100 * sum(row.slice(0, 8))) / sum(row));
    paint(plot.firstChild, left.map((_, i) => left.slice(0, i + 1).reverse()));
    caption.textContent = `head ${head}: ${near}%`;
    plot.firstChild.setAttribute("aria-label", `Head ${head}: query ${query} gives ${near}% of its weight to the 8 nearest tokens`);
    nearest.push(near);
    numbers.push([`head ${head}`, ...distances.map((distance) => `${((100 * row[distance]) / sum(row)).toFixed(1)}%`)]);
  }
  fillTable("heads-table", ["distance", ...distances], numbers);
  announce("heads-caption", "If all tokens match equally well, the framed query gives its 8 nearest tokens "
    + `between ${Math.min(...nearest)}% and ${Math.max(...nearest)}% of its weight.`);
}

/** Fill a table with a row of headings, and rows that begin with one. */
function fillTable(id, headings, rows) {
  const row = ([first, ...others], tag) => el("tr", {}, el("th", {}, first), ...others.map((text) => el(tag, {}, `${text}`)));
  $(id).replaceChildren(row(headings, "th"), ...rows.map((cells) => row(cells, "td")));
}

// 4. Two switches.

/** Light up the cell of the present state, and say its numbers. */
function drawSwitches() {
  const state = `${$("angles-stop").checked} ${$("far-brake").checked}`;
  for (const cell of document.querySelectorAll(".switches .cell")) {
    const isNow = cell.dataset.state === state;
    cell.classList.toggle("now", isNow);
    cell.setAttribute("aria-current", isNow);
    if (isNow) say("switches-caption", cell.dataset.words);
  }
}

/** Set both switches to the state of a cell. */
function switchTo(cell) {
  const [angles, brake] = cell.dataset.state.split(" ");
  $("angles-stop").checked = angles === "true";
  $("far-brake").checked = brake === "true";
  drawSwitches();
}

// Start: pictures first, then text.

for (const id of ["heads", "length", "query", "law"]) $(id).addEventListener("input", drawHeads);
for (const id of ["angles-stop", "far-brake"]) $(id).addEventListener("input", drawSwitches);
for (const cell of document.querySelectorAll(".switches .cell")) cell.addEventListener("click", () => switchTo(cell));
for (const id of ["beginning", "scale", "cut", "count"]) $(id).addEventListener("input", startWriting);
$("again").addEventListener("click", () => (seed++, startWriting()));
$("train").addEventListener("click", () => {
  try {
    startRace();
  } catch {
    failRace();
  }
});
$("stop").addEventListener("click", () => (stopRace(), drawRace()));
drawHeads();
drawSwitches();
startWriting();
drawRace();
addEventListener("resize", drawRace);
