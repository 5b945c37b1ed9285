// A handle over a mark of an app's figure, which the pointer drags sideways: over the point of a trace, or over a
// vertical line. The kernel hears where the handle is, as a value of the axis, and draws the mark there, as when the
// slider moves. The slider is for the keyboard, and says the value to a screen reader.
const SIZE = 28;  // pixels of the handle of a point, more than the point has
const LINE = 16;  // pixels of the width of the handle of a line
const DRAWN = ["plotly_afterplot", "plotly_restyle", "plotly_relayout", "plotly_update"];
const axisOf = (plot, name) => plot._fullLayout[name.replace(/^[xy]/, letter => `${letter}axis`)];

// Where a mark is in the figure, in pixels, and on which axis it moves; undefined if it is hidden.
function markIn(plot, names) {
  const trace = plot._fullData?.find(({ name, visible, x }) => names.includes(name) && visible === true && x?.length);
  if (trace) {
    const x = axisOf(plot, trace.xaxis ?? "x"), y = axisOf(plot, trace.yaxis ?? "y");
    const left = x._offset + x.d2p(trace.x[0]) - SIZE / 2, top = y._offset + y.d2p(trace.y[0]) - SIZE / 2;
    return { axis: x, left, top, width: SIZE, height: SIZE };
  }
  const line = plot._fullLayout?.shapes?.find(({ name, visible }) => names.includes(name) && visible === true);
  if (!line) return undefined;
  const x = axisOf(plot, line.xref), y = axisOf(plot, line.yref.split(" ")[0]);
  return { axis: x, left: x._offset + x.d2p(line.x0) - LINE / 2, top: y._offset, width: LINE, height: y._length };
}

export default {
  render({ model, el }) {
    const handle = document.createElement("div");
    handle.className = "alibi-handle";
    handle.title = model.get("tip");
    let plot, axis, closed = false;

    const place = () => {
      const mark = markIn(plot, model.get("marks"));
      handle.hidden = !mark;
      if (!mark) return;
      axis = mark.axis;
      for (const side of ["left", "top", "width", "height"]) handle.style[side] = `${mark[side]}px`;
      if (!handle.isConnected) plot.querySelector(".svg-container").append(handle);
    };

    const drag = event => {
      if (!handle.hasPointerCapture(event.pointerId)) return;
      const pixels = event.clientX - plot.querySelector(".svg-container").getBoundingClientRect().left - axis._offset;
      model.set("place", axis.p2d(pixels));
      model.save_changes();
    };

    handle.addEventListener("pointerdown", event => {
      event.preventDefault();  // selects no text
      handle.setPointerCapture(event.pointerId);
    });
    handle.addEventListener("pointermove", drag);

    const start = () => {
      plot = el.closest(".alibi-app")?.querySelector(".js-plotly-plot");
      if (!plot?.on) return closed || requestAnimationFrame(start);  // not drawn yet
      DRAWN.forEach(event => plot.on(event, place));
      place();
    };
    requestAnimationFrame(start);
    return () => {
      closed = true;
      handle.remove();
    };
  },
};
