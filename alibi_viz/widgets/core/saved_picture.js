// An invisible part of an app, or of a guess with a figure. When JupyterLab saves the notebook, it adds two outputs to
// the file below the app: a picture of the figure as it is on the screen, and the caption. Without them a saved app is
// the address of a widget, which shows nothing without its kernel: tomorrow, on GitHub, after `nbconvert`.
// - The picture is made before, when nothing has changed for a second and no mouse button is held.
// - Only the file gets the two outputs. If the app's cell on the page got them, JupyterLab might draw the app anew.
// - A page that is reloaded while the kernel lives reads them from the file. There, theme.css hides them below the app.
// Outside of JupyterLab, such as in VS Code, there is no `context`, and nothing happens. Nothing happens either for
// readers who edit one notebook together, because then the server writes the file.
const IDLE = 1000;  // milliseconds
const VIEW = "application/vnd.jupyter.widget-view+json";
// What plotly calls its changes of a figure. Hovering is none.
const CHANGES = ["plotly_afterplot", "plotly_restyle", "plotly_relayout", "plotly_update"];

const viewedIn = output => output.data?.[VIEW]?.model_id;
const picturedIn = output => output.metadata?.alibi_viz?.picture_of;

// Below each app its outputs in `pictures`, in place of those from an earlier save.
function withPictures(outputs, pictures) {
  const current = outputs.filter(output => !pictures.has(picturedIn(output)));
  return current.flatMap(output => [output, ...(pictures.get(viewedIn(output)) ?? [])]);
}

// {app: outputs}: what is added when the notebook is saved. All apps of a notebook share it.
function picturesOf(notebook) {
  globalThis.alibiPictures ??= new WeakMap();
  const known = globalThis.alibiPictures.get(notebook);
  if (known) return known;
  const pictures = new Map();
  globalThis.alibiPictures.set(notebook, pictures);
  const { toJSON } = notebook;
  notebook.toJSON = () => {
    const content = toJSON.call(notebook);  // a copy
    for (const cell of content.cells) {
      if (cell.outputs) cell.outputs = withPictures(cell.outputs, pictures);
    }
    return content;
  };
  return pictures;
}

// The figure on white, as large as on the page: a PNG in base64. The background of its plots stays transparent: that of a
// plot whose axes are hidden would cover the images below it.
async function png(plot) {
  const { data, layout } = structuredClone({ data: plot.data, layout: plot.layout });  // plotly would change them
  layout.paper_bgcolor = "white";
  const url = await globalThis.Plotly.toImage({ data, layout }, { format: "png" });
  return url.slice(url.indexOf(",") + 1);
}

// The outputs for the file. `nbconvert` shows no alternative text of a picture, so the caption is an output of its own.
function outputsOf(app, picture, caption) {
  const paragraph = document.createElement("p");
  paragraph.className = "alibi-saved-caption";
  paragraph.textContent = caption;  // `outerHTML` escapes it
  const marked = { alibi_viz: { picture_of: app } };
  return [
    { data: { "image/png": picture, "text/plain": caption }, metadata: { "image/png": { alt: caption }, ...marked } },
    { data: { "text/html": paragraph.outerHTML, "text/plain": caption }, metadata: marked },
  ].map(output => ({ output_type: "display_data", ...output }));
}

const TEXT = { childList: true, characterData: true, subtree: true };
const captionsIn = view => [...view.querySelectorAll(".alibi-caption")];  // a guess has its question and the answer

export default () => {
  const views = new Set();  // an app may be shown several times
  let notebook, pictures, app;
  let timer;  // undefined while the picture is up to date
  let missedSave = false;

  const onChange = () => {
    clearTimeout(timer);
    timer = setTimeout(update, IDLE);
  };

  const update = async () => {
    const view = [...views].at(-1), plot = view?.querySelector(".js-plotly-plot");
    if (!plot?.data?.length || !globalThis.Plotly) return;  // a figure that failed to start has no traces
    const isHeld = [...views].some(shown => shown.matches(":active"));
    const isRacing = view.querySelector(".s-stop:enabled");
    if (isHeld || isRacing) return onChange();
    const due = timer;
    const caption = captionsIn(view).map(({ textContent }) => textContent.trim()).filter(Boolean).join(" ");
    const picture = await png(plot);
    if (timer !== due || !notebook) return;  // the figure has changed since, or the app was closed
    pictures.set(app, outputsOf(app, picture, caption));
    timer = undefined;
    if (missedSave) notebook.dirty = true;  // so JupyterLab saves it once more by itself, or asks
    missedSave = false;
  };

  const onSave = (_, state) => {
    if (state === "started") missedSave = timer !== undefined;
  };

  return {
    initialize({ model }) {
      const context = model.widget_manager?.context;
      if (!context?.saveState || context.model.collaborative) return;
      notebook = context.model;
      pictures = picturesOf(notebook);
      app = model.get("app");
      context.saveState.connect(onSave);
      return () => {
        context.saveState.disconnect(onSave);
        pictures.set(app, []);  // also in place of an earlier picture
        notebook = undefined;
      };
    },
    render({ el }) {
      if (!notebook) return;
      const captions = new MutationObserver(onChange);
      let view, closed = false;
      const start = () => {
        view = el.closest(".alibi-app, .alibi-guess");
        const plot = view?.querySelector(".js-plotly-plot");
        if (!plot?.on) return closed || requestAnimationFrame(start);  // not drawn yet
        views.add(view);
        CHANGES.forEach(change => plot.on(change, onChange));
        captionsIn(view).forEach(caption => captions.observe(caption, TEXT));
        onChange();
      };
      requestAnimationFrame(start);
      return () => { closed = true; captions.disconnect(); views.delete(view); };
    },
  };
};
