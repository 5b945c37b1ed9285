// Two switches, four cells: why rotary falls apart.
import { $, say } from "./tools.js";

/** Frame the cell of the present state, and say its numbers. */
export function drawSwitches() {
  const state = `${$("angles-stop").checked} ${$("far-brake").checked}`;
  for (const cell of document.querySelectorAll(".switches .cell")) {
    const isNow = cell.dataset.state === state;
    cell.classList.toggle("now", isNow);
    cell.setAttribute("aria-current", isNow);
    if (isNow) say("switches-caption", cell.dataset.words);
  }
}

/** Set both switches to the state of a cell. */
export function switchTo(cell) {
  const [angles, brake] = cell.dataset.state.split(" ");
  $("angles-stop").checked = angles === "true";
  $("far-brake").checked = brake === "true";
  drawSwitches();
}
