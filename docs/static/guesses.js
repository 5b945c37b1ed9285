// Once a guess is made, the text below that tells its answer opens, up to the next guess.
addEventListener("change", ({ target }) => {
  const guess = target.closest(".guess");
  const isOrdered = [...(guess?.querySelectorAll("[type=number]") ?? [])].every(field => field.value);
  if (!guess || !isOrdered) return;
  const parts = [...document.querySelectorAll(".guess, details.after-guess")];
  for (const part of parts.slice(parts.indexOf(guess) + 1)) {
    if (part.matches(".guess")) return;
    part.open = true;
  }
});
