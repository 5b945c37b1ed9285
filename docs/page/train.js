// Two models train, each in a worker of its own, after the reader has drawn how their losses will go on.
import { RacePlot } from "./plot.js";
import { knownWords, linesFor, showText } from "./text.js";
import { $, data, fillTable, percent, say, signed } from "./tools.js";
import { LENGTHS } from "./worker.js";

const RACERS = { alibi: "ALiBi", sinusoidal: "sinusoidal" };
const START = 1;  // bits per letter that both need at the end on texts as long as in training, where guesses begin
const FALLS = 0.5;  // bits per letter: a loss that rises by more falls apart
const CONTINUED = 8;  // in training lengths: how long the texts are that models write
const { length, steps } = data.race.settings;
const xs = LENGTHS.map((times) => times * length);
const realWords = new Set(data.race.training.match(/[A-Za-z]{3,}/g));
const beginningOfTale = data.race.validation.slice(0, length / 2);
const race = { workers: [], rows: { alibi: [], sinusoidal: [] }, isGuessed: false, expected: {} };

const plot = new RacePlot($("curve"), {
  xs,
  guessed: [xs[2], xs[4]],
  start: START,
  names: RACERS,
  yardsticks: yardsticks(),
  onGuess: () => { race.isGuessed = true; },
});

/** The losses of a model that finds all letters equally likely, and of two that only count. */
function yardsticks() {
  const counting = Object.entries(data.race.yardsticks).map(([name, bits]) => [`${name} alone`, bits]);
  return { "knows nothing": Math.log2(data.race.characters.length), ...Object.fromEntries(counting) };
}

function isRunning() {
  return race.workers.length > 0;
}

export function startRace() {
  if (isRunning()) return;
  if (!race.isGuessed) {
    say("race-caption", "Guess first: drag the handles to where you expect the losses on longer texts.");
    return;
  }
  race.rows = { alibi: [], sinusoidal: [] };
  // What is drawn later is no guess any more.
  for (const name of Object.keys(RACERS)) race.expected[name] = plot.guesses[name].at(-1) - START > FALLS;
  const { characters, training, validation, settings } = data.race;
  const ids = new Map([...characters].map((character, id) => [character, id]));
  const encode = (text) => Int32Array.from(text, (character) => ids.get(character) ?? 0);
  const count = CONTINUED * length - beginningOfTale.length;
  const texts = { training: encode(training), validation: encode(validation), prompt: encode(beginningOfTale) };
  try {
    for (const name of Object.keys(RACERS)) {
      const worker = startWorker(name);
      const config = { ...data.race.config, vocabulary: characters.length, position: name };
      worker.postMessage({ config, settings: { ...settings, ...texts, seed: 1, count } });
    }
  } catch {
    failRace();
    return;
  }
  drawRace();
}

function startWorker(name) {
  const source = new Blob([$("worker").textContent], { type: "text/javascript" });
  const worker = new Worker(URL.createObjectURL(source));
  race.workers.push(worker);
  worker.onmessage = ({ data: row }) => addRow(name, row);
  worker.onerror = failRace;
  return worker;
}

function failRace() {
  endWorkers();
  drawRace();
  say("race-caption", "This browser could not start a worker for training.");
}

function endWorkers() {
  race.workers.forEach((worker) => worker.terminate());
  race.workers = [];
}

export function stopRace() {
  if (!isRunning()) return;
  endWorkers();
  drawRace();
}

function addRow(name, row) {
  race.rows[name].push(row);
  const isOver = Object.values(race.rows).every((rows) => rows.at(-1)?.step === steps);
  if (isOver) endWorkers();
  drawRace();
}

/** The latest test of each model that has been tested. */
function latestTests() {
  const tests = {};
  for (const [name, rows] of Object.entries(race.rows)) {
    const row = rows.findLast(({ losses }) => losses);
    if (row) tests[name] = row;
  }
  return tests;
}

export function drawRace() {
  // A button that was disabled would lose the focus.
  $("start").setAttribute("aria-disabled", isRunning());
  $("stop").setAttribute("aria-disabled", !isRunning());
  plot.lock(isRunning());
  for (const name of Object.keys(RACERS)) drawProgress(name);

  const tests = latestTests();
  const curves = Object.fromEntries(Object.entries(tests).map(([name, { losses }]) => [name, losses]));
  plot.draw(curves, judgedGuesses());
  $("train").style.setProperty("--race-lines", linesFor($("race-alibi"), CONTINUED * length));
  for (const name of Object.keys(RACERS)) {
    const written = tests[name] ? asText(tests[name].texts[0]) : "…";
    showText($(`race-${name}`), beginningOfTale, written, length - beginningOfTale.length, realWords);
  }
  fillNumbers(curves);
  say("race-caption", captionOfRace(tests));
}

function drawProgress(name) {
  const latest = race.rows[name].at(-1);
  $(`bar-${name}`).value = (latest?.step ?? 0) / steps;
  let note = isRunning() ? "starting" : "";
  if (latest) note = `step ${latest.step} of ${steps}, ${latest.seconds.toFixed(0)} s`;
  say(`bar-note-${name}`, note);
}

function asText(ids) {
  return ids.map((id) => data.race.characters[id]).join("");
}

function fillNumbers(curves) {
  const rows = Object.entries(curves).map(([name, losses]) => [RACERS[name], ...losses.map((bits) => bits.toFixed(2))]);
  const others = Object.entries(yardsticks()).map(([name, bits]) => [name, ...xs.map(() => bits.toFixed(2))]);
  const guesses = Object.entries(plot.guesses).map(([name, [middle, end]]) =>
    [`your guess, ${RACERS[name]}`, "", "", middle.toFixed(1), "", end.toFixed(1)]);
  fillTable("race-table", ["letters", ...xs], [...rows, ...guesses, ...others]);
}

function captionOfRace(tests) {
  if (isRunning()) return `Training. Both read the same batches, ${length} letters at a time.`;
  const tested = Object.values(tests);
  if (isFinished(tests)) return verdict(tests);
  if (tested.length === 2) {
    return `Stopped: ALiBi was tested at step ${tests.alibi.step} of ${steps}, sinusoidal positions at step `
      + `${tests.sinusoidal.step}. Train to the end to see whether your guess is right.`;
  }
  if (race.rows.alibi.length || race.isGuessed) return "Stopped before both models were tested.";
  return "Draw your guess, then press Train.";
}

function isFinished(tests) {
  const tested = Object.values(tests);
  return tested.length === 2 && tested.every(({ step }) => step === steps);
}

/** For each model that was tested after the last step, whether the reader's guess was right. */
export function judgedGuesses() {
  const tests = latestTests();
  if (!isFinished(tests)) return {};
  const isRight = {};
  for (const [name, { losses }] of Object.entries(tests)) {
    const fallsApart = losses.at(-1) - losses[0] > FALLS;
    isRight[name] = race.expected[name] === fallsApart;
  }
  return isRight;
}

/** What the reader drew, whether it is right, and what was measured. */
function verdict(tests) {
  const rises = {};
  const words = {};
  for (const [name, { losses, texts }] of Object.entries(tests)) {
    rises[name] = signed(losses.at(-1) - losses[0]);
    const written = texts.map((ids) => asText(ids).slice(length - beginningOfTale.length));
    words[name] = percent(knownWords(written, realWords) || 0);
  }
  const { expected } = race;
  const guess = `that ALiBi ${expected.alibi ? "falls apart" : "holds"} and sinusoidal positions ${expected.sinusoidal ? "fall apart" : "hold"}`;
  return `You drew ${guess}: ${judgment(judgedGuesses())} From ${xs[0]} to ${xs.at(-1)} letters, ALiBi's loss changes by `
    + `${rises.alibi} bits per letter and that of sinusoidal positions by ${rises.sinusoidal}. Past the red line, `
    + `${words.alibi} of ALiBi's words are real, and ${words.sinusoidal} of the other's.`;
}

function judgment(isRight) {
  if (isRight.alibi && isRight.sinusoidal) return "you guessed right.";
  if (isRight.alibi) return "you guessed right about ALiBi only.";
  if (isRight.sinusoidal) return "you guessed right about sinusoidal positions only.";
  return "you guessed wrong.";
}
