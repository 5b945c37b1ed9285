// Say in the picture of an app that it is one: its controls are dimmed, and at their right end stands how they work.
app => {
  const controls = app.querySelector(".alibi-controls");
  const first = app.querySelector(".s-train") ?? controls.querySelector("select, input, button");
  const firstRow = first.closest(".widget-hbox");
  // A race shows its texts and the answers to its guesses among its controls, and SpotTheBug its figure.
  const holdsPicture = controls.querySelector(".s-columns, .js-plotly-plot");
  const dimmed = holdsPicture ? firstRow : controls;
  dimmed.style.opacity = "0.5";

  const label = document.createElement("div");
  label.textContent = "▶ Live once you run the cell";
  const top = firstRow.getBoundingClientRect().top - app.getBoundingClientRect().top;
  Object.assign(label.style, {
    position: "absolute",
    top: `${top}px`,
    right: "0",
    padding: "6px 14px",
    borderRadius: "16px",
    font: "600 13px/20px var(--jp-ui-font-family)",
    color: "white",
    background: "#0072B2",
  });
  app.style.position = "relative";
  app.append(label);
}
