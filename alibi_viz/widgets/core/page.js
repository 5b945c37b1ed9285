// An invisible part of an app, or of a guess. It reports an app's width in pixels, and how fine they are, to the kernel,
// now and after every change, because a picture is laid out for the page that it is on. And it makes both accessible:
// - ipywidgets renders a control's label beside it, without a connection that a screen reader could follow. Sliders
//   have no name, and the label of a field without `description` is hidden. A control's name becomes the visible text:
//   the label of its row and its own description.
// - A row of buttons behind a label, of which one is pressed, says which one, and each button has the label in its name.
// - A button that plays a slider is named after its label, too.
// - The caption is a live region that stays while its text changes. It is also what screen readers get for the figures.
// And it keeps clicks behind values: while the kernel works on one value of a control, ipywidgets holds back the next
// one, but not a click. So a click on "Reset" or "Train" waits until the kernel has got every value; "Stop" never waits.
// And it brings a new app, or a new guess, into view: see `bringIntoView`.
// And it opens the text that tells the answer of a guess, once the reader has guessed: see `openAnswers`.
// And it says when the app has to be made again.
const FIELDS = "[role=slider], select, textarea, input:not([type=checkbox])";
const text = (parent, selector) => parent?.querySelector(":scope > " + selector)?.textContent.trim();

function nameControls(controls) {
  for (const field of controls.querySelectorAll(FIELDS)) {
    const widget = field.closest(".jupyter-widgets");
    const labels = [text(widget.parentElement, ".jupyter-widgets.widget-label"), text(widget, ".widget-label")];
    const name = labels.filter(Boolean).join(" ") || field.placeholder?.replace("\u200b", "");
    if (name) field.setAttribute("aria-label", name);
  }
}

// A check mark or a cross on a button is an icon, which a screen reader doesn't read.
const MARKS = { "fa-check": ", right", "fa-times": ", wrong" };

function nameToggleButtons(controls) {
  for (const group of controls.querySelectorAll(".widget-toggle-buttons")) {
    const label = text(group.parentElement, ".jupyter-widgets.widget-label");
    for (const button of group.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", button.classList.contains("mod-active"));
      const mark = Object.keys(MARKS).find(name => button.querySelector("." + name));
      if (label) button.setAttribute("aria-label", `${label} ${button.textContent.trim()}${MARKS[mark] ?? ""}`);
    }
  }
}

// The button of ipywidgets' Play is an icon, which becomes another one while it plays.
function namePlayButtons(controls) {
  return [...controls.querySelectorAll(".widget-play button:first-child")].map(button => {
    const icon = button.querySelector("i");
    const number = text(button.closest(".widget-play").parentElement, ".jupyter-widgets.widget-label");
    const name = () => {
      const action = icon.classList.contains("fa-pause") ? "pause" : "play";
      button.setAttribute("aria-label", `${action} ${number}`);
    };
    name();
    const icons = new MutationObserver(name);
    icons.observe(icon, { attributeFilter: ["class"] });
    return icons;
  });
}

function keepClicksBehind(parts, controls) {
  const areOnTheWay = () => parts().some(({ _pending_msgs }) => _pending_msgs > 0);  // undefined if ipywidgets renames it
  let passes = false;
  controls.addEventListener("click", event => {
    const button = event.target.closest(".widget-button:not(.s-stop)");
    if (!button || passes || !areOnTheWay()) return;
    event.stopImmediatePropagation();
    let before, since;
    const click = () => {
      const now = parts().map(({ _pending_msgs, _msg_buffer }) => [_pending_msgs, !_msg_buffer]).join();
      if (now !== before) [before, since] = [now, performance.now()];
      const isLost = performance.now() - since > 60_000;  // no answer for a minute: the connection was lost
      if (areOnTheWay() && !isLost) return setTimeout(click, 20);
      passes = true;
      button.click();
      passes = false;
    };
    click();
  }, true);
}

// The text below a guess that tells its answer is folded, as <details class="after-guess">, up to the next guess.
function openAnswers(guess) {
  const cell = guess.closest(".jp-Cell");  // only JupyterLab has one
  // The stored text of a guess that hasn't been run begins with the same words.
  const asks = other => other.querySelector(".jp-Cell-outputArea")?.textContent.includes("Your guess.");
  for (let next = cell?.nextElementSibling; next; next = next.nextElementSibling) {
    if (asks(next)) return;
    for (const answer of next.querySelectorAll("details.after-guess")) answer.open = true;
  }
}

// After Shift+Enter, JupyterLab shows the next cell. The app grows above it, and its controls are off the screen. So an
// app scrolls to the top of the screen when it first appears, but only for a reader who has run its cell and stayed there.
const BY_READER = ["wheel", "touchmove", "pointerdown", "keydown"];  // may scroll, or choose another cell
const frame = () => new Promise(requestAnimationFrame);

function isWhereTheReaderIs(cell) {
  const notebook = cell.closest(".jp-Notebook");
  const active = notebook.querySelector(".jp-Cell.jp-mod-active");
  // Ctrl+Enter stays at the cell, Shift+Enter goes to the next one, and "Run all" to the last one.
  const wasRun = active === cell || active === cell.nextElementSibling;
  const waits = other => other !== cell && other.querySelector(".jp-InputPrompt")?.textContent.includes("*");
  const runsMore = [...notebook.querySelectorAll(".jp-CodeCell")].some(waits);  // such as "Run all above"
  const place = cell.getBoundingClientRect(), screen = notebook.getBoundingClientRect();
  const isVisible = place.bottom > screen.top && place.top < screen.bottom;
  return wasRun && !runsMore && isVisible;
}

async function bringIntoView(app) {
  const cell = app.closest(".jp-CodeCell");  // only JupyterLab has one
  if (!cell || !isWhereTheReaderIs(cell)) return;
  let hasMoved = false;
  const onMove = () => { hasMoved = true; };
  for (const event of BY_READER) addEventListener(event, onMove, { capture: true, passive: true });
  const scroll = () => hasMoved || app.scrollIntoView({ block: "start" });
  // JupyterLab scrolls first.
  await frame();
  await frame();
  scroll();
  // At the end of a notebook, there is room to scroll only once the figure is drawn. Most guesses have none.
  const isDrawn = () => app.matches(".alibi-guess:not(:has(.alibi-figure))") || app.querySelector(".main-svg");
  while (!hasMoved && app.isConnected && !isDrawn()) await frame();
  await frame();
  scroll();
  for (const event of BY_READER) removeEventListener(event, onMove, { capture: true });
}

const TOO_BUSY = "This page was too busy to start the app: run the cell again.";
const RESTARTED = "The kernel was restarted: run this cell again.";

function say(words, app) {
  const message = document.createElement("div");
  message.className = "alibi-error";
  message.setAttribute("role", "alert");
  message.textContent = words;
  app.prepend(message);
}

// anywidget lets a part that wasn't ready within two seconds miss all that the kernel sends: such a figure never changes.
// It handles an empty message as soon as it is ready, and fails to do so once it is too late.
async function sayIfTooBusy(parts, app) {
  try {
    await Promise.all(parts.map(part => part._handle_comm_msg({ content: { data: {} } })));
  } catch (error) {
    if (String(error).includes("anywidget")) say(TOO_BUSY, app);
  }
}

// The models of an app and of all that is in it
const below = model => [model, ...(model.get("children") ?? []).flatMap(below)];

// A restarted kernel knows nothing of the apps that it made. Returns what ends the watch.
function onRestart({ widget_manager }, act) {
  const status = widget_manager?.context?.sessionContext?.statusChanged;  // only JupyterLab and Notebook have it
  const onStatus = (_, now) => now.includes("restarting") && act();  // or "autorestarting", after it has died
  status?.connect(onStatus);
  return () => status?.disconnect(onStatus);
}

export default {
  render({ model, el }) {
    const shown = () => el.closest(".alibi-app, .alibi-guess");
    let parts = () => [];
    const isKnown = model.widget_manager?.get_model(model.get("app")).then(
      app => { parts = () => below(app); },
      () => {},  // a lost one is not waited for
    );
    const sizes = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry.contentRect.width);
      if (width > 0 && width !== model.get("width")) {
        model.set("width", width);
        model.set("pixel_ratio", devicePixelRatio);  // the zoom of the browser changes both
        model.save_changes();
      }
    });
    const endWatch = onRestart(model, () => {
      const app = shown();
      if (!app || app.classList.contains("alibi-lost")) return;  // a kernel that died reports it more than once
      app.classList.add("alibi-lost");
      for (const part of app.children) part.inert = true;
      say(RESTARTED, app);
    });
    let naming, presses, captions, icons = [], closed = false;
    const tend = controls => {
      const name = () => {
        nameControls(controls);
        nameToggleButtons(controls);
      };
      name();
      naming = new MutationObserver(name);
      naming.observe(controls, { childList: true, characterData: true, subtree: true });
      presses = new MutationObserver(() => nameToggleButtons(controls));
      presses.observe(controls, { attributeFilter: ["class"], subtree: true });
      icons = namePlayButtons(controls);
      keepClicksBehind(() => parts(), controls);
      isKnown?.then(() => sayIfTooBusy(parts(), shown()));
    };
    const arrive = app => {
      if (!model.get("is_new")) return;
      model.set("is_new", false);  // a page that is loaded again stays where it is
      model.save_changes();
      bringIntoView(app);
    };
    const openIfAnswered = () => model.get("answered") && openAnswers(shown());
    model.on("change:answered", openIfAnswered);
    const start = () => {
      if (shown()) openIfAnswered();
      const guess = el.closest(".alibi-guess");
      if (guess) {  // it has no caption for figures
        const isInGrid = guess.parentElement.closest(".alibi-guess");
        if (!isInGrid) arrive(guess);
        return tend(guess);
      }
      const app = el.closest(".alibi-app"), controls = app?.querySelector(".alibi-controls");
      if (!controls) return closed || requestAnimationFrame(start);  // not on the page yet
      sizes.observe(app);
      arrive(app);
      const caption = app.querySelector(".alibi-caption");
      const describe = () => {
        const figures = app.querySelectorAll(".alibi-figure");
        for (const figure of figures) {
          figure.setAttribute("role", "img");
          figure.setAttribute("aria-label", caption.textContent.trim());
        }
        return figures.length || closed || requestAnimationFrame(describe);
      };
      caption.setAttribute("aria-live", "polite");
      describe();
      captions = new MutationObserver(describe);
      captions.observe(caption, { childList: true, characterData: true, subtree: true });
      tend(controls);
    };
    requestAnimationFrame(start);
    return () => { closed = true; endWatch(); sizes.disconnect(); for (const observer of [naming, presses, captions, ...icons]) observer?.disconnect(); };
  },
};
