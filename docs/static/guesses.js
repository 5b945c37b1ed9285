// Guesses answer: once all questions of one have an answer, each says whether it is right, and the folded answer and the
// text that tells it open, up to the next guess. A curve is not judged: it has no fields, and its answer is a picture.
const KEY = `guesses ${location.pathname}`;  // for as long as the tab is open

addEventListener("change", ({ target }) => {
  const guess = target.closest(".guesses");
  const questions = [...(guess?.querySelectorAll(".guess") ?? [])];
  if (!guess || !questions.every(isAnswered)) return;
  openAnswers(guess);
  questions.forEach(judge);
});

const fieldsOf = question => [...question.querySelectorAll("input")];
const isOrdered = field => field.type === "number";

function isAnswered(question) {
  const fields = fieldsOf(question);
  return isOrdered(fields[0]) ? fields.every(field => field.value) : fields.some(field => field.checked);
}

function openAnswers(guess) {
  const parts = [...document.querySelectorAll(".guesses, details.answer, details.after-guess")];
  for (const part of parts.slice(parts.indexOf(guess) + 1)) {
    if (part.matches(".guesses")) return;
    part.open = true;
  }
}

// Mark what is right, and what the reader has got wrong. The first answer counts.
function judge(question) {
  let isRight = true;
  for (const field of fieldsOf(question)) {
    const { place } = field.dataset;
    const isWrong = isOrdered(field) ? field.value !== place : field.checked && !place;
    if (isWrong) isRight = false;
    field.parentElement.classList.toggle("is-wrong", isWrong);
    field.parentElement.classList.toggle("is-right", Boolean(place) && !isWrong);
  }

  const judged = [...document.querySelectorAll(".guess:has(input)")];
  const firsts = JSON.parse(sessionStorage.getItem(KEY) ?? "{}");  // by number of a question, whether it was right
  firsts[judged.indexOf(question)] ??= isRight;
  sessionStorage.setItem(KEY, JSON.stringify(firsts));
  const found = Object.values(firsts).filter(Boolean).length;
  const verdict = isRight ? "Right." : "Not right.";
  verdictOf(question).textContent = `${verdict} At the first try, you have found ${found} of ${judged.length} in this lesson.`;
}

function verdictOf(question) {
  const known = question.querySelector(".verdict");
  if (known) return known;
  const verdict = document.createElement("p");
  verdict.className = "verdict";
  verdict.setAttribute("role", "status");
  question.querySelector(".answer").before(verdict);
  return verdict;
}
