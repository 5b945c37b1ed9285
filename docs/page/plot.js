// The plot of the race: the reader draws a guess into it, then the curves of two models are drawn over the guess.
import { el } from "./tools.js";

// Pixels: the height of the plot, and its margins
const HEIGHT = 304;
const LEFT = 56;
const RIGHT = 104;
const TOP = 16;
const BOTTOM = 48;
export const HIGHEST = 8;  // bits per letter; the axis is the same before, during and after training
const STEP = 0.2;  // of the arrow keys
const NARROW = 480;  // pixels: a narrower plot has no room for the numbers of lines
const APART = 18;  // pixels between the names of two curves
const BESIDE = 26;  // pixels between two handles at one length
const REACH = 22;  // pixels around a handle in which a finger takes it
const KEYS = {
  ArrowUp: STEP, ArrowRight: STEP, ArrowDown: -STEP, ArrowLeft: -STEP, PageUp: 1, PageDown: -1, Home: -HIGHEST, End: HIGHEST,
};

export class RacePlot {
  /**
   * `xs` are the lengths tested, the first of them as in training, and `guessed` those with a handle. `start` is the loss
   * at which guesses begin, `yardsticks` are lines {name: bits}, and `onGuess` is called when a handle is moved.
   */
  constructor(box, { xs, guessed, start, names, yardsticks, onGuess }) {
    Object.assign(this, { box, xs, guessed, start, names, yardsticks, onGuess, curves: {}, isRight: {}, isLocked: false });
    this.guesses = {};
    for (const name of Object.keys(names)) this.guesses[name] = guessed.map(() => start);
    this.back = el("g", { "aria-hidden": "true" });
    this.front = el("g");
    this.svg = el("svg", { role: "group", "aria-label": "Loss by text length, with your guess; the numbers are in the table below" });
    this.svg.append(this.back, this.front);
    box.replaceChildren(this.svg);
    this.handles = [];
    for (const name of Object.keys(names)) guessed.forEach((x, place) => this.addHandle(name, place));
  }

  px(x) {
    const share = Math.log2(x / this.xs[0]) / Math.log2(this.xs.at(-1) / this.xs[0]);
    return LEFT + 16 + (this.width - LEFT - RIGHT - 16) * share;
  }

  py(bits) {
    return HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - TOP) * Math.min(bits, HIGHEST)) / HIGHEST;
  }

  /** Draw the curves {name: losses}, or only the guess, and for each that is judged whether it was right. */
  draw(curves = this.curves, isRight = this.isRight) {
    this.curves = curves;
    this.isRight = isRight;
    this.width = Math.max(300, this.box.clientWidth);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    this.back.replaceChildren(...this.frame(), ...this.lines(), ...this.guessLines(), ...this.drawnCurves(), ...this.labels(),
      ...this.yardstickLabels());
    this.handles.forEach((handle) => this.placeHandle(handle));
  }

  /** Axes, the red line at the training length, and what is beyond it. */
  frame() {
    const right = this.width - RIGHT + 16;
    const bottom = HEIGHT - BOTTOM;
    const limit = this.px(this.xs[0]);
    const parts = [el("rect", { x: limit, y: TOP, width: right - limit, height: bottom - TOP, class: "unseen" })];
    for (let bits = 0; bits <= HIGHEST; bits += 2) {
      parts.push(el("line", { x1: LEFT, x2: right, y1: this.py(bits), y2: this.py(bits), class: bits ? "grid" : "axis" }));
      parts.push(el("text", { x: LEFT - 8, y: this.py(bits) + 5, "text-anchor": "end" }, `${bits}`));
    }
    for (const x of this.xs) parts.push(el("text", { x: this.px(x), y: bottom + 20, "text-anchor": "middle" }, `${x}`));
    parts.push(el("text", { x: (limit + right) / 2, y: HEIGHT - 4, "text-anchor": "middle", class: "small" }, "letters of text"));
    const turned = `translate(14 ${(TOP + bottom) / 2}) rotate(-90)`;
    parts.push(el("text", { transform: turned, "text-anchor": "middle", class: "small" }, "bits per letter"));
    parts.push(el("line", { x1: limit, x2: limit, y1: TOP, y2: bottom, class: "trained" }));
    parts.push(el("text", { x: limit + 8, y: TOP + 16, class: "limit-label" }, "longer than in training →"));
    return parts;
  }

  /** What models need that know less. */
  lines() {
    const left = this.px(this.xs[0]);
    const right = this.width - RIGHT + 16;
    return Object.values(this.yardsticks).map((bits) =>
      el("line", { x1: left, x2: right, y1: this.py(bits), y2: this.py(bits), class: "yardstick" }));
  }

  /** Their names, above the curves, which run through some of them. */
  yardstickLabels() {
    const x = this.px(this.xs[0]) + 8;
    const isNarrow = this.width < NARROW;
    return Object.entries(this.yardsticks).map(([name, bits]) => {
      const label = isNarrow ? name.replace(" alone", "") : `${name}, ${bits.toFixed(2)}`;
      return el("text", { x, y: this.py(bits) - 5, class: "small" }, label);
    });
  }

  guessLines() {
    return Object.entries(this.guesses).map(([name, heights]) => {
      const points = [[this.px(this.xs[0]), this.py(this.start)]];
      heights.forEach((bits, place) => points.push([this.handleX(name, place), this.py(bits)]));
      return el("path", { d: pathOf(points), class: `guess ${name}` });
    });
  }

  drawnCurves() {
    return Object.entries(this.curves).flatMap(([name, losses]) => {
      const points = losses.map((bits, n) => [this.px(this.xs[n]), this.py(bits)]);
      const marks = points.map(([x, y]) => name === "alibi"
        ? el("circle", { cx: x, cy: y, r: 5, class: `point ${name}` })
        : el("rect", { x: x - 5, y: y - 5, width: 10, height: 10, class: `point ${name}` }));
      return [el("path", { d: pathOf(points), class: `curve ${name}` }), ...marks];
    });
  }

  /** The names of the curves at their right ends, or of the guesses before there are curves. */
  labels() {
    const ends = Object.keys(this.names).map((name) => {
      const bits = this.curves[name]?.at(-1) ?? this.guesses[name].at(-1);
      return { name, y: this.py(bits), arrow: bits > HIGHEST ? " ↑" : "" };
    });
    const [upper, lower] = [...ends].sort((one, other) => one.y - other.y);
    const missing = Math.max(0, APART - (lower.y - upper.y));
    upper.y -= missing / 2;
    lower.y += missing / 2;
    const x = this.width - RIGHT + 24;
    const marks = { true: " ✓", false: " ✗" };
    return ends.map(({ name, y, arrow }) =>
      el("text", { x, y: y + 5, class: name }, this.names[name] + arrow + (marks[this.isRight[name]] ?? "")));
  }

  // Handles. Two at one length stand side by side.

  handleX(name, place) {
    const x = this.px(this.guessed[place]);
    return name === "alibi" ? x - BESIDE : x;
  }

  addHandle(name, place) {
    const knob = name === "alibi"
      ? el("circle", { r: 9, class: "knob" })
      : el("rect", { x: -8, y: -8, width: 16, height: 16, class: "knob" });
    const group = el("g", {
      class: `handle ${name}`, role: "slider", tabindex: "0", "aria-orientation": "vertical",
      "aria-label": `Your guess for ${this.names[name]} at ${this.guessed[place]} letters`,
      "aria-valuemin": 0, "aria-valuemax": HIGHEST,
    }, el("circle", { r: REACH, class: "reach" }), knob);
    const handle = { name, place, group };
    group.addEventListener("pointerdown", (event) => {
      group.setPointerCapture(event.pointerId);
      event.preventDefault();
      group.focus();
    });
    // `touch-action` alone is enough only where a browser applies it to SVG.
    group.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });
    group.addEventListener("pointermove", (event) => {
      if (group.hasPointerCapture(event.pointerId)) this.guess(handle, this.bitsAt(event.clientY));
    });
    group.addEventListener("keydown", (event) => {
      if (!(event.key in KEYS)) return;
      event.preventDefault();
      this.guess(handle, this.guesses[name][place] + KEYS[event.key]);
    });
    this.handles.push(handle);
    this.front.append(group);
  }

  /** The loss at a height of the window. */
  bitsAt(clientY) {
    const box = this.svg.getBoundingClientRect();
    const y = ((clientY - box.top) * HEIGHT) / box.height;
    return (HIGHEST * (HEIGHT - BOTTOM - y)) / (HEIGHT - BOTTOM - TOP);
  }

  guess({ name, place }, bits) {
    if (this.isLocked) return;
    this.guesses[name][place] = Math.round(10 * Math.min(HIGHEST, Math.max(0, bits))) / 10;
    this.draw();
    this.onGuess();
  }

  /** Keep the guess as it is, while models train. */
  lock(isLocked) {
    this.isLocked = isLocked;
    for (const { group } of this.handles) group.setAttribute("aria-disabled", isLocked);
  }

  placeHandle({ name, place, group }) {
    const bits = this.guesses[name][place];
    group.setAttribute("transform", `translate(${this.handleX(name, place)} ${this.py(bits)})`);
    group.setAttribute("aria-valuenow", bits);
    group.setAttribute("aria-valuetext", `${bits.toFixed(1)} bits per letter`);
  }
}

function pathOf(points) {
  return points.map(([x, y], n) => `${n ? "L" : "M"}${x},${y}`).join("");
}
