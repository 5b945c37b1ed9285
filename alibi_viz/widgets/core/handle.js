// Handles over marks of a picture, which the pointer drags: over the only point of a trace, or over a line. The kernel
// hears where a handle is, as a value of its axis, and draws the mark there, as when a slider moves. The slider is for
// the keyboard, and says the value to a screen reader.
const POINT_SIZE = 28;  // pixels of the handle of a point, more than the point has
const LINE_SIZE = 16;  // pixels of the width of the handle of a line
// What plotly calls its changes of a figure. Hovering is none.
const DRAWN = ["plotly_afterplot", "plotly_restyle", "plotly_relayout", "plotly_update"];

const axisOf = (plot, name) => plot._fullLayout[name.replace(/^[xy]/, letter => `${letter}axis`)];

// The axes of the first mark that the picture has, and where it is in pixels; undefined if it has none.
function markIn(plot, names) {
  const trace = plot._fullData?.find(({ name, visible, x }) => names.includes(name) && visible === true && x?.length);
  if (trace) {
    const x = axisOf(plot, trace.xaxis ?? "x"), y = axisOf(plot, trace.yaxis ?? "y");
    const left = x._offset + x.d2p(trace.x[0]) - POINT_SIZE / 2, top = y._offset + y.d2p(trace.y[0]) - POINT_SIZE / 2;
    return { x, y, left, top, width: POINT_SIZE, height: POINT_SIZE };
  }
  const line = plot._fullLayout?.shapes?.find(({ name, visible }) => names.includes(name) && visible === true);
  if (!line) return undefined;
  const x = axisOf(plot, line.xref), y = axisOf(plot, line.yref.split(" ")[0]);
  const left = x._offset + x.d2p(line.x0) - LINE_SIZE / 2;
  return { x, y, left, top: y._offset, width: LINE_SIZE, height: y._length };
}

// Puts a handle over a mark of a picture, wherever the mark moves. `send` gets the value under the pointer.
function addHandle(plot, { marks, tip, axis }, send) {
  const handle = document.createElement("div");
  handle.className = "alibi-handle";
  handle.classList.toggle("alibi-upright", axis === "y");
  handle.title = tip;
  let mark;

  const place = () => {
    mark = markIn(plot, marks);
    handle.hidden = !mark;
    if (!mark) return;
    for (const side of ["left", "top", "width", "height"]) handle.style[side] = `${mark[side]}px`;
    if (!handle.isConnected) plot.querySelector(".svg-container").append(handle);
  };

  handle.addEventListener("pointerdown", event => {
    event.preventDefault();  // selects no text
    handle.setPointerCapture(event.pointerId);
  });
  handle.addEventListener("pointermove", event => {
    if (!handle.hasPointerCapture(event.pointerId)) return;
    const { left, top } = plot.querySelector(".svg-container").getBoundingClientRect();
    const pixels = { x: event.clientX - left, y: event.clientY - top }[axis];
    send(mark[axis].p2d(pixels - mark[axis]._offset));
  });
  DRAWN.forEach(event => plot.on(event, place));
  place();
}
