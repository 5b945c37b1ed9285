// A picture of plotly on the page. The kernel sends what has changed, and plotly draws only that.
//
// anywidget gives a script two seconds to get ready, and when it takes longer, the widget never hears from the kernel.
// plotly takes longer on a page with several apps, or on a slow machine. So this script is ready at once, and plotly
// draws the newest picture when it has come. All pictures of a page share one plotly.

const NOT_LOADED = "The picture could not be loaded: use a browser of 2023 or newer, and run this cell again.";

const loadPlotly = async model => {
  const script = await model.widget_manager.get_model(model.get("script"));
  const stream = new Blob([script.get("packed")]).stream().pipeThrough(new DecompressionStream("gzip"));
  const url = URL.createObjectURL(await new Response(stream, { headers: { "Content-Type": "text/javascript" } }).blob());
  await import(url).finally(() => URL.revokeObjectURL(url));  // sets `globalThis.Plotly`
  return globalThis.Plotly;
};

// "line.width" and "annotations[2].text" as names and numbers
const stepsOf = path => path.match(/[^.[\]]+/g);
const valueAt = (object, path) => stepsOf(path).reduce((inner, step) => inner?.[step], object);

function put(object, path, value) {
  const steps = stepsOf(path), last = steps.pop();
  const inner = steps.reduce((outer, step) => outer[step] ??= {}, object);
  if (value === null) delete inner[last];
  else inner[last] = value;
}

// Lets plotly draw changes. Only traces that have changed are named: plotly would draw the others, too.
function drawChange(Plotly, plot, traces, layout, picture) {
  const numbers = Object.keys(traces).map(Number);
  if (!numbers.length) return Plotly.relayout(plot, layout);
  // plotly wants the value of each path in each of these traces.
  const restyled = {};
  for (const path of new Set(Object.values(traces).flatMap(Object.keys)))
    restyled[path] = structuredClone(numbers.map(number => valueAt(picture.data[number], path) ?? null));
  return Plotly.update(plot, restyled, layout, numbers);
}

const pointOf = ({ points: [{ data, x, y, z, pointNumber, customdata }] }) =>
  ({ trace: data.name, x, y, z, index: pointNumber, custom: customdata });

export default () => {
  const views = new Set();  // functions that draw a change
  let picture, keeper;

  return {
    initialize({ model }) {
      // Changed in place: views that open later and a saved notebook read it, and the kernel has it already.
      picture = model.get("whole");
      keeper = keepPicture(model);
      const onChange = () => {
        const change = model.get("change");
        if (!change || change.number <= picture.number) return;
        if (change.whole) Object.assign(picture, change.whole);
        else if (change.number > picture.number + 1) return model.send({ missed: picture.number + 1 });
        else adopt(change);
        picture.number = change.number;
        for (const draw of views) draw(change);
      };
      const adopt = ({ traces, layout }) => {
        for (const [trace, paths] of Object.entries(traces))
          for (const [path, value] of Object.entries(paths)) put(picture.data[trace], path, value);
        for (const [path, value] of Object.entries(layout)) put(picture.layout, path, value);
      };
      model.on("change:change", onChange);
      onChange();
      return () => keeper.close();
    },

    async render({ model, el }) {
      const plot = document.createElement("div");
      el.append(plot);
      // The page knows its width before the kernel does, and draws the picture so wide at once.
      const least = model.get("least_width");
      let width;
      const measure = () => {
        const before = width;
        if (least !== null && el.clientWidth) width = Math.max(el.clientWidth, least);
        return width !== before;
      };
      const fit = layout => { if (width && "width" in layout) layout.width = width; };

      let Plotly;
      try {
        Plotly = await (globalThis.alibiPlotly ??= loadPlotly(model));
      } catch (error) {
        delete globalThis.alibiPlotly;  // the next picture tries again
        plot.className = "alibi-error";
        plot.setAttribute("role", "alert");
        plot.textContent = `${NOT_LOADED} (${error.message})`;
        throw error;
      }
      const whole = () => {
        const { data, layout } = structuredClone(picture);  // plotly writes into what it gets
        fit(layout);
        return [plot, data, layout, { displayModeBar: false }];
      };
      measure();
      await Plotly.newPlot(...whole());
      const draw = change => {
        if (change.whole) return Plotly.react(...whole());
        const { traces, layout } = structuredClone(change);
        fit(layout);
        drawChange(Plotly, plot, traces, layout, picture);
      };
      views.add(draw);
      const sizes = new ResizeObserver(() => measure() && Plotly.relayout(plot, { width }));
      sizes.observe(el);

      // ipywidgets sends the newest value of what changes faster than the kernel answers.
      const report = (name, value) => {
        model.set(name, value);
        model.save_changes();
      };
      plot.on("plotly_click", event => model.send({ click: pointOf(event) }));
      if (model.get("reports_pointer")) plot.on("plotly_hover", event => report("pointed", pointOf(event)));
      model.get("handles").forEach((handle, index) =>
        addHandle(plot, handle, place => report("dragged", { handle: index, place })));
      const release = keeper.watch(plot);
      return () => {
        views.delete(draw);
        sizes.disconnect();
        release();
        Plotly.purge(plot);
      };
    },
  };
};
