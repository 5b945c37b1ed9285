// One line below the figure of an app: the sum behind the cell under the pointer. The same cell is outlined in every
// matrix, and its key in the bars. All of it happens on the page, because the kernel would answer too late.
//
// The figure says of each cell what plotly would show in a tooltip. As one line below the picture, it covers nothing.
// The texts of a figure are escaped for plotly.
const plain = text => new DOMParser().parseFromString(text, "text/html").documentElement.textContent;

// The place of a range of an axis in pixels: where it starts, and its length. An axis may run backwards.
function pixels(axis, from, to) {
  const [start, end] = [axis.l2p(from), axis.l2p(to)].sort((a, b) => a - b);
  return [axis._offset + start, end - start];
}

function outlineIn(layer, kind, [left, width], [top, height]) {
  const frame = document.createElement("div");
  frame.className = `alibi-outline alibi-${kind}`;
  frame.style.cssText = `left:${left}px; top:${top}px; width:${width}px; height:${height}px;`;
  layer.append(frame);
}

export default {
  render({ model, el }) {
    const line = document.createElement("div");
    line.className = "alibi-sum";
    el.append(line);
    const layer = document.createElement("div");
    let plot, closed = false;

    const rest = () => {
      layer.replaceChildren();
      line.textContent = model.get("rest");
    };

    const outline = (query, key) => {
      plot.querySelector(".svg-container").append(layer);
      for (const { name, xaxis = "x", yaxis = "y" } of plot._fullData) {
        const x = plot._fullLayout[xaxis.replace("x", "xaxis")];
        const y = plot._fullLayout[yaxis.replace("y", "yaxis")];
        const column = pixels(x, key - 0.5, key + 0.5);
        if (model.get("matrices").includes(name)) outlineIn(layer, "cell", column, pixels(y, query - 0.5, query + 0.5));
        if (model.get("columns") === name) outlineIn(layer, "column", column, pixels(y, ...y.range));
      }
    };

    const hover = ({ points: [point] }) => {
      rest();
      if (!point?.customdata) return;
      line.textContent = plain(point.customdata);
      const { name } = point.data;
      if (model.get("matrices").includes(name)) outline(...point.pointNumber);
      // The bars are those of one query. Without the matrices, only the column is outlined.
      if (model.get("columns") === name) outline(model.get("query"), point.pointNumber);
    };

    const start = () => {
      plot = el.closest(".alibi-app")?.querySelector(".js-plotly-plot");
      if (!plot?.on) return closed || requestAnimationFrame(start);  // not drawn yet
      plot.on("plotly_hover", hover);
      plot.on("plotly_unhover", rest);
    };

    model.on("change:rest", rest);
    model.on("change:query", rest);
    rest();
    requestAnimationFrame(start);
    return () => {
      closed = true;
      model.off("change:rest", rest);
      model.off("change:query", rest);
      layer.remove();
    };
  },
};
