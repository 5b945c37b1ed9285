// When JupyterLab saves the notebook, the picture of an app, or of a guess, adds two outputs to the file below the app: an
// image of itself as it is on the screen, and the caption. Without them a saved app is
// the address of a widget, which shows nothing without its kernel: tomorrow, on GitHub, after `nbconvert`.
// - The image is made before, when nothing has changed for a second and no mouse button is held.
// - Only the file gets the two outputs. If the app's cell on the page got them, JupyterLab might draw the app anew.
// - A page that is reloaded while the kernel lives reads them from the file. There, theme.css hides them below the app.
// Outside of JupyterLab, such as in VS Code, there is no `context`, and nothing happens. Nothing happens either for
// readers who edit one notebook together, because then the server writes the file.
const IDLE = 1000;  // milliseconds
const WIDGET = "application/vnd.jupyter.widget-view+json";

const viewedIn = output => output.data?.[WIDGET]?.model_id;
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

// Keeps the image of a picture up to date, for the notebook that its model is in.
function keepPicture(model) {
  const app = () => model.get("app");
  const context = model.widget_manager?.context;
  if (!context?.saveState || context.model.collaborative) return { watch: () => () => {}, close() {} };
  const notebook = context.model, pictures = picturesOf(notebook);
  const plots = new Set();  // an app may be shown several times
  let timer;  // undefined while the image is up to date
  let missedSave = false, closed = false;

  const onChange = () => {
    clearTimeout(timer);
    timer = setTimeout(update, IDLE);
  };

  const viewOf = plot => plot.closest(".alibi-app, .alibi-guess");

  const update = async () => {
    const plot = [...plots].at(-1), view = plot && viewOf(plot);
    if (!view || !plot.data?.length) return;
    const isHeld = [...plots].some(shown => viewOf(shown)?.matches(":active"));
    const isRacing = view.querySelector(".s-stop:enabled");
    if (isHeld || isRacing) return onChange();
    const due = timer;
    const caption = captionsIn(view).map(({ textContent }) => textContent.trim()).filter(Boolean).join(" ");
    const picture = await png(plot);
    if (timer !== due || closed) return;  // the picture has changed since, or the app was closed
    pictures.set(app(), outputsOf(app(), picture, caption));
    timer = undefined;
    if (missedSave) notebook.dirty = true;  // so JupyterLab saves it once more by itself, or asks
    missedSave = false;
  };

  const onSave = (_, state) => {
    if (state === "started") missedSave = timer !== undefined;
  };
  context.saveState.connect(onSave);

  return {
    // For a picture on the page; returns what ends it.
    watch(plot) {
      const captions = new MutationObserver(onChange);
      let gone = false;
      const start = () => {
        const view = viewOf(plot);
        if (!view) return gone || requestAnimationFrame(start);  // not on the page yet
        plots.add(plot);
        DRAWN.forEach(change => plot.on(change, onChange));
        captionsIn(view).forEach(caption => captions.observe(caption, TEXT));
        onChange();
      };
      start();
      return () => { gone = true; captions.disconnect(); plots.delete(plot); };
    },
    close() {
      closed = true;
      context.saveState.disconnect(onSave);
      pictures.set(app(), []);  // also in place of an earlier image
    },
  };
}
