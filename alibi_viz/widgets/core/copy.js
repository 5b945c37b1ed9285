// A button that puts the state of an app on the clipboard, as code that makes the same app. Where a page may not write
// to the clipboard, such as one that is served without HTTPS, a field shows the code, selected.
const SHOWN = 1500;  // milliseconds that the check mark is shown
const ICON = "fa fa-code", DONE = "fa fa-check";

export default {
  render({ model, el }) {
    const button = document.createElement("button");
    button.className = "jupyter-widgets jupyter-button s-copy";
    button.title = model.get("tip");
    button.ariaLabel = "Copy as code";
    const icon = document.createElement("i");
    icon.className = ICON;
    button.append(icon);
    const status = document.createElement("span");
    status.className = "alibi-copied";
    status.role = "status";
    const field = document.createElement("input");
    Object.assign(field, { className: "s-code-to-copy", readOnly: true, hidden: true, ariaLabel: "This app as code" });
    el.append(button, status, field);

    const showCode = code => {
      field.value = code;
      field.hidden = false;
      field.select();
    };
    button.addEventListener("click", async () => {
      const code = model.get("code");
      try {
        await navigator.clipboard.writeText(code);
      } catch {
        return showCode(code);
      }
      icon.className = DONE;
      status.textContent = "Copied";
      setTimeout(() => {
        icon.className = ICON;
        status.textContent = "";
      }, SHOWN);
    });
    field.addEventListener("blur", () => { field.hidden = true; });
  },
};
