// What all sections of the page use. Text is only ever set as textContent, so nothing that a reader types or a model
// writes can become markup.

export const $ = (id) => document.getElementById(id);
export const data = JSON.parse($("data").textContent);
export const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
export const MODELS = { alibi: "ALiBi", rotary: "Rotary", sinusoidal: "Sinusoidal" };
const SVG = new Set(["svg", "path", "line", "text", "circle", "rect", "g"]);
const SETTLED = 400;  // milliseconds after which a slider counts as settled

/** A new element with attributes and children; strings become text. */
export function el(tag, attributes = {}, ...children) {
  const element = SVG.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Change the text of an element. A text that stays is not set again, so a live region is not announced again. */
export function say(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

/** Change the text of a live region once no further change has come for a while: a slider passes many values. */
export function announce(id, text) {
  clearTimeout(announce[id]);
  announce[id] = setTimeout(say, SETTLED, id, text);
}

/** Fill a table with a row of headings, and rows that begin with one. */
export function fillTable(id, headings, rows) {
  const cells = ([first, ...others], tag, scope) =>
    el("tr", {}, el("th", { scope }, first), ...others.map((text) => el(tag, {}, `${text}`)));
  $(id).replaceChildren(cells(headings, "th", "col"), ...rows.map((row) => cells(row, "td", "row")));
  allowScrolling();
}

/** Let the keyboard reach boxes that scroll, and only those. */
export function allowScrolling() {
  for (const box of document.querySelectorAll(".scroll")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

/** A share in percent. */
export function percent(share) {
  return `${Math.round(100 * share)}%`;
}

/** A number with two digits and its sign; zero has none. */
export function signed(number) {
  const digits = Math.abs(number).toFixed(2);
  if (Number(digits) === 0) return digits;
  return `${number > 0 ? "+" : "\u2212"}${digits}`;
}
