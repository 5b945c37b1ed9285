// The script of a figure. anywidget gives a script two seconds to get ready, and when it takes longer, the figure never
// hears from the kernel. plotly takes longer on a page with several apps, or on a slow machine. So this script is ready
// at once. All figures of a page share one plotly, and get the changes that came while it was loading.
const load = source => {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  return import(url).finally(() => URL.revokeObjectURL(url));
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
        missed.forEach(([name, value]) => model.set(name, value));  // after each, plotly.py sets null again
        return figure;
      });
    },
    async render(context) {
      return (await drawn).render(context);
    },
  };
};
