// The page: it connects the controls of all sections, and starts them, pictures first, then text.
import { saveCard } from "./card.js";
import { changeLaw, chooseQuery, drawHeads, togglePlay } from "./heads.js";
import { leaveMarathon, toggleMarathon } from "./marathon.js";
import { answer } from "./quiz.js";
import { $, allowScrolling } from "./tools.js";
import { drawRace, startRace, stopRace } from "./train.js";
import { changeAlibi, changeText, copyLink, reserveLines, restoreSettings, startWriting, writeAgain } from "./write.js";

function on(selector, event, listener) {
  for (const element of document.querySelectorAll(selector)) element.addEventListener(event, () => listener(element));
}

on("#write :is(input, select)", "input", leaveMarathon);
on("#again", "click", leaveMarathon);
on("#marathon-toggle", "click", toggleMarathon);
on("#beginning, #count", "input", changeText);
on("#scale, #cut", "input", changeAlibi);
on("#again", "click", writeAgain);
on("#copy", "click", copyLink);
on("#save", "click", saveCard);
on("#heads, #length, #query", "input", drawHeads);
on("#law", "input", changeLaw);
on("[data-plays]", "click", togglePlay);
$("grid").addEventListener("click", chooseQuery);
on("#start", "click", startRace);
on("#stop", "click", stopRace);
on(".answers button", "click", answer);
on("#heads-numbers", "toggle", drawHeads);
on("details", "toggle", allowScrolling);
addEventListener("hashchange", () => {
  if (!location.hash.includes("=")) return;
  leaveMarathon();
  restoreSettings();
  startWriting();
});
addEventListener("resize", () => {
  reserveLines();
  drawRace();
  allowScrolling();
});

// On a phone the claims would fill three screens.
$("all-claims").open = !matchMedia("(max-width: 820px)").matches;
restoreSettings();
drawHeads();
startWriting();
drawRace();
allowScrolling();
