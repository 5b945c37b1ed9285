// Three bugs: the reader says what is wrong. A panel beside the cases answers, and on a phone a line below the case.
import { $, el, say } from "./tools.js";

export const answered = new Map();  // by case, whether its first answer was right

/** Judge an answer, and say what was wrong. */
export function answer(button) {
  const question = button.closest(".case");
  const { name, fault, problem, source } = question.dataset;
  const isRight = button.dataset.answer === fault;
  for (const other of question.querySelectorAll("button")) {
    other.setAttribute("aria-pressed", other === button);
    other.classList.toggle("is-right", other.dataset.answer === fault);
    other.classList.toggle("is-wrong", other === button && !isRight);
  }
  if (!answered.has(name)) answered.set(name, isRight);
  const right = [...answered.values()].filter(Boolean).length;
  const verdict = isRight ? `Right: ${fault}` : `Not “${button.dataset.answer}”, but “${fault}”`;
  const details = `In this code, ${problem}. Seen in ${source}. It is ${name} of lesson 7. `
    + `At the first try, you have found ${right} of ${answered.size}.`;
  say("verdict", verdict);
  say("verdict-details", details);
  question.querySelector(".verdict").replaceChildren(el("strong", {}, verdict), ` ${details}`);
}
