// Texts that models write: shown with the limit in them, and judged by their words.
import { el } from "./tools.js";

const LONG_ENOUGH = 32;  // letters: a longer text without a single whole word is one endless word, or none

/** The whole words of three or more letters in a text: how many there are, and how many of them are known. */
export function countWords(text, known) {
  const words = text.match(/[^A-Za-z][A-Za-z]{3,}(?=[^A-Za-z])/g) ?? [];
  return { words: words.length, real: words.filter((word) => known.has(word.slice(1))).length };
}

/** The share of their words that are known; NaN without words, as long as there may still be some. */
export function knownWords(texts, known) {
  const counts = texts.map((text) => countWords(text, known));
  const sum = (name) => counts.reduce((total, count) => total + count[name], 0);
  if (sum("words") === 0 && texts.join("").length > LONG_ENOUGH) return 0;
  return sum("real") / sum("words");
}

/**
 * Show a text: the beginning in gray, then what is within the training length, then what is beyond, behind a red line.
 * After it stands what is left of an earlier text, very pale, so that nothing is empty while a new one is written.
 */
export function showText(pre, beginning, written, within, known, earlier = "") {
  if (!pre.querySelector(":scope > .earlier")) {
    const parts = ["given", "within", "beyond", "earlier"].map((name) => el("span", { class: name }));
    pre.replaceChildren(...parts);
  }
  const [given, inside, beyond, rest] = pre.children;
  const before = beginning + written.slice(0, within);
  given.textContent = beginning;
  inside.textContent = written.slice(0, within);
  beyond.replaceChildren(...markedWords(before, written.slice(within), known));
  beyond.hidden = written.length <= within;
  rest.textContent = earlier;
}

/** A text with a wavy line under every word that isn't known. The text before it may have cut its first word. */
function markedWords(before, text, known) {
  const parts = text.split(/([A-Za-z]{3,})/);  // words are the odd parts
  return parts.map((part, n) => {
    const isCutAtStart = n === 1 && parts[0] === "" && /[A-Za-z]$/.test(before);
    const isCutAtEnd = n === parts.length - 2 && parts.at(-1) === "";
    const isWord = n % 2 === 1 && !isCutAtStart && !isCutAtEnd;
    if (!isWord || known.has(part)) return part;
    return el("s", { title: "not a word of the tales" }, part);
  });
}

/** How many lines a text of so many letters may need in a box: words that don't fit leave a gap at the end of a line. */
export function linesFor(pre, letters) {
  const probe = el("span", { style: "position: absolute; white-space: pre" }, "0".repeat(20));
  pre.append(probe);
  const letterWidth = probe.getBoundingClientRect().width / 20;
  probe.remove();
  const perLine = Math.max(8, Math.floor(pre.clientWidth / letterWidth));
  return Math.ceil((1.08 * letters) / perLine) + 1;
}
