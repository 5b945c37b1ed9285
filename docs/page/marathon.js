// "Don't stop": ALiBi writes on and on, and the others run beside it for a while.
import { countWords, knownWords, showText } from "./text.js";
import { $, MODELS, announce, calm, data, percent, say } from "./tools.js";
import { FRAME, endWriting, known, settingsNow, showShare, startWriting, tokensOf } from "./write.js";

const PACE = 0.3;  // letters in a millisecond: more could not be followed
const NEGLIGIBLE = 1e-7;  // share of a head's weight
const OTHERS_END = 2048;  // letters: the others read all that they have written, so each letter costs more than the last
const SHOWN = 448;  // letters of a text that scrolls
const QUESTION = $("marathon").textContent;
let runners = {};  // by model, what it has written so far; none while nobody runs
let lastFrame = 0;  // its time in milliseconds
let isShown = false;  // whether the cards show what runners have written

function isMarathon() {
  return Object.keys(runners).length > 0;
}

/** How far ALiBi has got, while the cards show it. */
export function marathonNote() {
  return isShown ? $("marathon").textContent : "";
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
  const beginning = text || " ";
  const prompt = new TextEncoder().encode(beginning);
  const within = Math.max(0, data.length - prompt.length);
  for (const name of Object.keys(MODELS)) {
    const changes = name === "alibi" ? { seed, scale: slopes, cut, negligible: NEGLIGIBLE } : { seed };
    const count = name === "alibi" ? Infinity : OTHERS_END;
    const tokens = tokensOf(name, prompt, count, changes);
    runners[name] = { tokens, beginning, within, letters: prompt.length, text: "", uncounted: "", words: 0, real: 0 };
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
  say("marathon", QUESTION);
  for (const name of Object.keys(MODELS)) $(`written-${name}`).classList.remove("scrolls");
  startWriting();
}

function runForAFrame(now) {
  if (!isMarathon()) return;
  const due = Math.ceil(PACE * (now - lastFrame));
  lastFrame = now;
  // A slow machine writes less in a frame, so that the page still scrolls.
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
  // Nobody waits for the end of one endless word.
  runner.uncounted = runner.uncounted.slice(-SHOWN);
  if (letter !== " " || runner.uncounted.length < 2) return;
  const { words, real } = countWords(runner.uncounted, known);
  runner.words += words;
  runner.real += real;
  runner.uncounted = " ";
}

/** The share of real words; NaN as long as there may still be some. */
function shareOf({ words, real, uncounted }) {
  return words > 0 ? real / words : knownWords([uncounted], known);
}

function showRunner(name, runner) {
  // Cut seldom, so that lines stay where they are while they scroll.
  if (runner.text.length > 2 * SHOWN) {
    runner.text = runner.text.slice(-SHOWN);
    runner.beginning = "";
    runner.within = 0;
  }
  showShare(name, shareOf(runner), false);
  if (calm) return;
  const pre = $(`written-${name}`);
  pre.classList.add("scrolls");
  showText(pre, runner.beginning, runner.text, runner.within, known);
  pre.scrollTop = pre.scrollHeight;
}

function sayDistance() {
  const past = Math.max(0, runners.alibi.letters - data.length).toLocaleString("en");
  const share = shareOf(runners.alibi);
  const words = Number.isNaN(share) ? "" : `, ${percent(share)} real words`;
  say("marathon", `ALiBi: ${past} letters past a limit of ${data.length}${words}.`);
}
