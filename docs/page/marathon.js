// "Don't stop": ALiBi writes on and on, and the others run beside it for a while.
import { countWords, showText } from "./text.js";
import { $, MODELS, announce, calm, data, percent, say } from "./tools.js";
import { FRAME, endWriting, known, settingsNow, showShare, startWriting, tokensOf } from "./write.js";

const PACE = 0.3;  // letters in a millisecond: more could not be followed
const NEGLIGIBLE = 1e-7;  // share of a head's weight
const OTHERS_END = 2048;  // letters: the others read all that they have written, so each letter costs more than the last
const SHOWN = 448;  // letters of a text that scrolls
let runners = {};  // by model, what it has written so far; none while nobody runs
let lastFrame = 0;  // its time in milliseconds
let isShown = false;  // whether the cards show what runners have written

function isMarathon() {
  return Object.keys(runners).length > 0;
}

/** Start, or stop where they are. */
export function toggleMarathon() {
  if (isMarathon()) {
    stopMarathon();
    return;
  }
  endWriting();
  isShown = true;
  const { slopes, cut, seed, text } = settingsNow();
  const prompt = new TextEncoder().encode(text || " ");
  for (const name of Object.keys(MODELS)) {
    const changes = name === "alibi" ? { seed, scale: slopes, cut, negligible: NEGLIGIBLE } : { seed };
    const count = name === "alibi" ? Infinity : OTHERS_END;
    runners[name] = { tokens: tokensOf(name, prompt, count, changes), letters: prompt.length, text: "", uncounted: "", words: 0, real: 0 };
  }
  $("marathon-toggle").textContent = "Stop";
  // A hidden tab gets no frames: it pauses by itself.
  requestAnimationFrame(runForAFrame);
}

/** Keep what was written. */
function stopMarathon() {
  announce("live-writing", $("marathon").textContent);
  runners = {};
  $("marathon-toggle").textContent = "Don't stop";
}

/** Let all models write a text of the usual length again. */
export function leaveMarathon() {
  if (!isShown) return;
  isShown = false;
  stopMarathon();
  for (const name of Object.keys(MODELS)) $(`written-${name}`).classList.remove("scrolls");
  startWriting();
}

function runForAFrame(now) {
  if (!isMarathon()) return;
  const due = Math.ceil(PACE * (now - lastFrame));
  lastFrame = now;
  const until = performance.now() + FRAME;
  for (let n = 0; n < due && performance.now() < until; n++) Object.values(runners).forEach(advanceRunner);
  for (const [name, runner] of Object.entries(runners)) showRunner(name, runner);
  sayDistance();
  requestAnimationFrame(runForAFrame);
}

/** Write one letter. What is within the limit isn't counted. */
function advanceRunner(runner) {
  let token = null;
  while (token === null) token = runner.tokens.next().value;  // null for each letter of the beginning
  if (token === undefined) return;  // this one has ended
  runner.letters++;
  const letter = String.fromCharCode(token);
  runner.text += letter;
  if (runner.letters > data.length) runner.uncounted += letter;

  // A word is counted once it is whole: what follows the last space may go on.
  if (letter !== " " || runner.uncounted.length < 2) return;
  const { words, real } = countWords(runner.uncounted, known);
  runner.words += words;
  runner.real += real;
  runner.uncounted = " ";
}

function showRunner(name, runner) {
  // Cut seldom, so that lines stay where they are while they scroll.
  if (runner.text.length > 2 * SHOWN) runner.text = runner.text.slice(-SHOWN);
  showShare(name, runner.real / runner.words, false);
  if (calm) return;
  const pre = $(`written-${name}`);
  pre.classList.add("scrolls");
  const isCut = runner.letters > runner.text.length + data.length;
  const beginning = isCut ? "" : settingsNow().text;
  const within = isCut ? 0 : Math.max(0, data.length - beginning.length);
  showText(pre, beginning, runner.text, within, known);
  pre.scrollTop = pre.scrollHeight;
}

function sayDistance() {
  const { letters, words, real } = runners.alibi;
  const past = Math.max(0, letters - data.length).toLocaleString("en");
  const share = words > 0 ? `, ${percent(real / words)} real words` : "";
  say("marathon", `ALiBi: ${past} letters past a limit of ${data.length}${share}.`);
}
