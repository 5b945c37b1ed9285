// Three trained models write.
import { addressOf, readAddress, setControl } from "./address.js";
import { Model } from "./model.js";
import { knownWords, linesFor, showText } from "./text.js";
import { $, MODELS, announce, calm, data, percent, say } from "./tools.js";
import { write } from "./worker.js";

// Milliseconds of a frame in which the models may write: half, since showing the texts takes the rest
export const FRAME = calm ? 100 : 8;
const REST = 400;  // milliseconds for which a model stops at the limit, so that one sees the step across
export const known = new Set(data.words);
const loaded = {};
const jobs = {};  // by model, the text that it writes at present
let isWriting = false;
let unheard = new Set();  // models whose new text has not been announced
let seed = 1;

/** A published model from its weights in half precision. */
function loadModel(name) {
  const { config, weights } = data.models[name];
  const model = new Model(config);
  const bytes = Uint8Array.from(atob(weights), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < model.weights.length; i++) model.weights[i] = half(view.getUint16(2 * i, true));
  return model;
}

/** The number that 16 bits stand for (IEEE 754). */
function half(bits) {
  const sign = bits >> 15 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = (bits & 1023) / 1024;
  if (exponent === 0) return sign * 2 ** -14 * fraction;
  return sign * 2 ** (exponent - 15) * (1 + fraction);
}

/** The tokens that a model writes, and null for each that it reads. Its weights are unpacked when it is first asked. */
export function* tokensOf(name, prompt, count, changes) {
  loaded[name] ??= loadModel(name);
  yield* write(loaded[name], prompt, count, changes);
}

/** What the controls say. */
export function settingsNow() {
  return {
    slopes: 2 ** Number($("scale").value),
    cut: Number($("cut").value),
    seed,
    letters: Number($("count").value),
    text: $("beginning").value,
  };
}

const DEFAULTS = settingsNow();
// By name in the address, how a setting is set. Each returns whether the text makes sense.
const SETTERS = {
  slopes: (text) => setControl("scale", Math.log2(Number(text))),
  cut: (text) => setControl("cut", text),
  letters: (text) => setControl("count", text),
  seed: (text) => {
    seed = Number(text);
    return Number.isSafeInteger(seed) && seed > 0;
  },
  text: (text) => {
    $("beginning").value = text;
    return text.length <= $("beginning").maxLength;
  },
};

/** Set the controls to the settings in the address. What makes no sense is the default, and a line says so. */
export function restoreSettings() {
  const { pairs, problems } = readAddress(location.hash);
  for (const [name, value] of Object.entries(DEFAULTS)) SETTERS[name](`${value}`);
  for (const [name, text] of pairs) {
    const isKnown = Object.hasOwn(SETTERS, name);
    if (isKnown && SETTERS[name](text)) continue;
    problems.push(`${name}=${text}`);
    if (isKnown) SETTERS[name](`${DEFAULTS[name]}`);
  }
  $("address-note").hidden = problems.length === 0;
  const meaningless = problems.join(", ").slice(0, 100);
  say("address-note", `Some of the address means nothing here, and the page shows its default instead: ${meaningless}`);
}

/** Put the settings into the address, without a step for the button Back. */
function keepSettings() {
  const hash = addressOf(settingsNow(), DEFAULTS);
  try {
    history.replaceState(null, "", hash || location.href.split("#")[0]);
  } catch {
    // Safari refuses more than 100 changes in ten seconds. The next change brings the address up to date.
  }
}

/** Copy the address of what is shown. */
export async function copyLink() {
  keepSettings();
  try {
    await navigator.clipboard.writeText(location.href);
    say("copied", "Copied.");
  } catch {
    say("copied", "Not allowed here: copy it from the address bar.");
  }
  setTimeout(say, 4000, "copied", "");
}

/** Let another text begin. */
export function writeAgain() {
  seed++;
  changeText();
}

/** Answer a change of a control that all three models follow. */
export function changeText() {
  keepSettings();
  startWriting(Object.keys(MODELS));
}

/** Answer a change of ALiBi's own controls: the others have nothing new to write. */
export function changeAlibi() {
  keepSettings();
  startWriting(["alibi"]);
}

/** What slopes are multiplied by, as it is written. */
export function timesOf(slopes) {
  return slopes < 1 ? `× 1/${1 / slopes}` : `× ${slopes}`;
}

/** Let models continue what stands in the box. */
export function startWriting(names = Object.keys(MODELS)) {
  const { slopes, cut, letters, text } = settingsNow();
  const beginning = text || " ";
  const prompt = new TextEncoder().encode(beginning);
  const times = timesOf(slopes);
  say("scale-value", times);
  $("scale").setAttribute("aria-valuetext", times);
  say("count-value", `${letters}`);
  reserveLines();
  for (const name of names) {
    const changes = name === "alibi" ? { seed, scale: slopes, cut } : { seed };
    jobs[name] = {
      beginning,
      within: Math.max(0, data.length - prompt.length),
      letters,
      tokens: tokensOf(name, prompt, letters, changes),
      bytes: [],
      earlier: jobs[name] ? shownText(jobs[name]) : "",
      goesOnAt: 0,  // the time at which a pause is over
      isDone: false,
      isShown: false,
    };
    unheard.add(name);
    $(`share-${name}`).classList.add("waits");
  }
  if (isWriting) return;
  isWriting = true;
  writeForAFrame();
}

/** Leave all texts as they are. */
export function endWriting() {
  for (const job of Object.values(jobs)) {
    job.isDone = true;
    job.isShown = true;
  }
}

/** Give all cards room for the whole text before it comes: then nothing below them moves. */
export function reserveLines() {
  const { letters, text } = settingsNow();
  const lines = linesFor($("written-alibi"), text.length + letters);
  $("cards").style.setProperty("--lines", lines);
}

function writeForAFrame() {
  const until = performance.now() + FRAME;
  let active = Object.values(jobs).filter(mayWrite);
  while (active.length && performance.now() < until) {
    active.forEach(advance);
    active = active.filter(mayWrite);
  }
  for (const name of Object.keys(jobs)) show(name);
  isWriting = Object.values(jobs).some((job) => !job.isDone);
  if (isWriting) requestAnimationFrame(writeForAFrame);
  else announceShares();
}

/** Whether a model has more to write, and doesn't pause at the limit. */
function mayWrite(job) {
  return !job.isDone && performance.now() >= job.goesOnAt;
}

/** Read or write one token. */
function advance(job) {
  const { value, done } = job.tokens.next();
  job.isDone = done;
  if (done || value === null) return;
  job.bytes.push(value);
  if (!calm && job.bytes.length === job.within) job.goesOnAt = performance.now() + REST;
}

function writtenText(job) {
  return new TextDecoder().decode(Uint8Array.from(job.bytes));
}

/** All of the text in a card behind its beginning: new letters, then what they have not yet replaced. */
function shownText(job) {
  const written = writtenText(job);
  return written + job.earlier.slice(written.length);
}

/** Show how far a text is, and how many of its words are real. Without motion, texts appear when they are complete. */
function show(name) {
  const job = jobs[name];
  const isWaiting = job.bytes.length === 0 || (calm && !job.isDone);
  if (job.isShown || isWaiting) return;
  const written = writtenText(job);
  const earlier = job.isDone ? "" : job.earlier.slice(written.length, job.letters);
  showText($(`written-${name}`), job.beginning, written, job.within, known, earlier);
  job.isShown = job.isDone;
  showShare(name, knownWords([written.slice(job.within)], known), job.isDone);
}

export function showShare(name, share, isFinal) {
  const figure = $(`share-${name}`);
  const isKnown = !Number.isNaN(share);
  if (isKnown) figure.textContent = percent(share);
  else if (isFinal) figure.textContent = "–";  // it wrote no word at all
  if (isKnown || isFinal) {
    figure.classList.remove("waits");
    $(`meter-${name}`).style.width = isKnown ? percent(share) : "0";
  }
}

function announceShares() {
  const shares = [...unheard].map((name) => `${MODELS[name]}: ${$(`share-${name}`).textContent}`);
  announce("live-writing", `Real words past the limit. ${shares.join(", ")}.`);
  unheard = new Set();
}
