// The picture that a reader saves and sends: what stands in the three cards, in the size in which pages show a link.
import { marathonNote } from "./marathon.js";
import { answered } from "./quiz.js";
import { $, MODELS, data, say } from "./tools.js";
import { judgedGuesses } from "./train.js";
import { settingsNow, timesOf } from "./write.js";

// Pixels
const CARD_WIDTH = 1200;
const CARD_HEIGHT = 630;
const MARGIN = 48;
const FIRST_ROW = 116;  // of the first model
const ROW = 152;  // from one model to the next
const TEXT_LEFT = 304;
const TEXT_WIDTH = CARD_WIDTH - MARGIN - TEXT_LEFT;
const LINE_HEIGHT = 30;
const ROW_LINES = 4;  // of each text: up to the red line, and behind it

/** Save the picture as a PNG. */
export function saveCard() {
  const link = document.createElement("a");
  link.href = drawCard().toDataURL();
  link.download = "alibi.png";
  link.click();
  say("copied", "Saved.");
  setTimeout(say, 4000, "copied", "");
}

/** The picture, on a canvas. */
function drawCard() {
  const canvas = document.createElement("canvas");
  canvas.width = CARD_WIDTH;
  canvas.height = CARD_HEIGHT;
  const context = canvas.getContext("2d");
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`).trim();
  const { fontFamily } = getComputedStyle(document.body);

  const write = (text, x, y, size, { ink = "ink", weight = 400, align = "left", room = CARD_WIDTH } = {}) => {
    context.font = `${weight} ${size}px ${fontFamily}`;
    context.fillStyle = color(ink);
    context.textAlign = align;
    context.fillText(text, x, y, room);
  };

  context.fillStyle = color("paper");
  context.fillRect(0, 0, CARD_WIDTH, CARD_HEIGHT);
  write($("h-write").textContent, MARGIN, 80, 46, { weight: 700 });
  Object.entries(MODELS).forEach(([name, title], place) => {
    const y = FIRST_ROW + place * ROW;
    context.fillStyle = color(name);
    context.fillRect(MARGIN, y, 6, ROW_LINES * LINE_HEIGHT);
    const left = MARGIN + 22;
    write(title, left, y + 24, 28, { weight: 700, ink: `${name}-ink` });
    write($(`share-${name}`).textContent, left, y + 80, 56, { weight: 700 });
    const room = TEXT_LEFT - left - 16;
    write("real words past the limit", left, y + 102, 18, { ink: "gray", room });
    if (name === "alibi") write(changesOfAlibi(), left, y + 124, 18, { room });
    drawText(context, color, $(`written-${name}`), y);
  });

  const bottom = CARD_HEIGHT - 36;
  write(marathonNote() || `The red line is the limit, letter ${data.length}.`, MARGIN, bottom, 22, { ink: "gray" });
  write(score(), CARD_WIDTH - MARGIN, bottom, 22, { weight: 700, align: "right" });
  const address = document.querySelector("link[rel=canonical]")?.href ?? "";
  write(address, CARD_WIDTH - MARGIN, 80, 22, { ink: "gray", align: "right" });
  return canvas;
}

/** How the reader has changed ALiBi. */
function changesOfAlibi() {
  const { slopes, cut } = settingsNow();
  const changes = [];
  if (slopes !== 1) changes.push(`slopes ${timesOf(slopes)}`);
  if (cut !== 0) changes.push(`without head ${cut}`);
  return changes.join(", ");
}

/** How many of the reader's guesses in the quiz and the race were right. */
function score() {
  const judged = [...answered.values(), ...Object.values(judgedGuesses())];
  return judged.length ? `${judged.filter(Boolean).length} of ${judged.length} guesses right` : "";
}

/** Draw the beginning of a text: what is within the limit on the first line, the rest below a red line. */
function drawText(context, color, pre, top) {
  const [given, within, beyond] = [...pre.querySelectorAll(".given, .within, .beyond")];
  if (!given) return;  // no model has written yet
  const { fontFamily } = getComputedStyle(pre);
  context.textAlign = "left";
  context.font = `22px ${fontFamily}`;
  const letter = TEXT_WIDTH / data.length;
  context.font = `${(22 * letter) / context.measureText("0").width}px ${fontFamily}`;

  let line = 0;
  let column = 0;
  const put = (text, ink, isWavy) => {
    for (const character of text) {
      if (column === data.length) {
        line++;
        column = 0;
      }
      if (line >= ROW_LINES) return;
      const x = TEXT_LEFT + column * letter;
      const y = top + line * LINE_HEIGHT;
      context.fillStyle = color(ink);
      context.fillText(character, x, y + 22);
      if (isWavy) drawWave(context, color, x, y + 27, letter);
      column++;
    }
  };

  const beginning = given.textContent + within.textContent;
  if (beginning) {
    context.fillStyle = color("limit");
    context.fillRect(TEXT_LEFT, top + LINE_HEIGHT - 1, TEXT_WIDTH, 3);
    put(given.textContent, "gray");
    put(within.textContent, "ink");
    line = 1;
    column = 0;
  }
  context.fillStyle = color("limit");
  context.globalAlpha = 0.08;
  context.fillRect(TEXT_LEFT, top + line * LINE_HEIGHT, TEXT_WIDTH, (ROW_LINES - line) * LINE_HEIGHT);
  context.globalAlpha = 1;
  for (const part of beyond.childNodes) put(part.textContent.replace(/\s/g, " "), "ink", part.nodeName === "S");
}

/** A wave below one letter. */
function drawWave(context, color, x, y, letter) {
  context.strokeStyle = color("gray");
  context.beginPath();
  context.moveTo(x, y);
  context.quadraticCurveTo(x + letter / 4, y - 4, x + letter / 2, y);
  context.quadraticCurveTo(x + (3 * letter) / 4, y + 4, x + letter, y);
  context.stroke();
}
