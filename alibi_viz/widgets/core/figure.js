// The script of a figure. anywidget gives a script two seconds to get ready, and when it takes longer, the figure never
// hears from the kernel. plotly takes longer on a page with several apps, or on a slow machine. So this script is ready
// at once. All figures of a page share one plotly, and get the changes that came while it was loading.
const load = async source => {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const plotly = await import(url).finally(() => URL.revokeObjectURL(url));
  silenceRemovedViews(plotly.FigureView);
  keepDefaultsOnThePage(plotly.FigureView);
  return plotly;
};

// After each change, a view of plotly compares all that plotly.js has filled in with the figure, and sends it to the
// kernel, which reads it. No app needs this. It takes the page 4 ms, and the kernel is busy when the next step arrives.
const keepDefaultsOnThePage = FigureView => {
  FigureView.prototype._sendTraceDeltas = () => {};
  FigureView.prototype._sendLayoutDelta = () => {};
};

// A view of plotly whose output was cleared goes on listening to changes, and fails to draw them. With a model that has
// no changes, it hears of none.
const silenceRemovedViews = FigureView => {
  const remove = FigureView.prototype.remove;
  FigureView.prototype.remove = function () {
    remove.call(this);
    this.model = { get: () => null };
  };
};

export default () => {
  let drawn;
  return {
    initialize({ model }) {
      const missed = [];
      const keep = event => {
        const [, name] = event.match(/^change:(_py2js_.*)/) ?? [];
        if (name) missed.push([name, model.get(name)]);
      };
      model.on("all", keep);
      globalThis.alibiPlotly ??= load(model.get("_plotly"));
      drawn = globalThis.alibiPlotly.then(({ default: plotly }) => {
        const figure = plotly();
        figure.initialize({ model });
        model.off("all", keep);
        for (const [name, value] of missed) {
          model.set(name, null);  // the last one is there already, and would not be a change
          model.set(name, value);
        }
        return figure;
      });
    },
    async render(context) {
      return (await drawn).render(context);
    },
  };
};
