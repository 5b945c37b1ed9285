"""Report the width of the app to the kernel, name its parts for screen readers, and follow its link."""

import anywidget
from traitlets import Int

__all__ = ["CONTROLS", "Page"]

CONTROLS = "alibi-controls"  # CSS class of the box that holds an app's controls


class Page(anywidget.AnyWidget):
    """An invisible widget inside an app. It sends the app's width in pixels to the kernel, now and after every change.

    A FigureWidget is drawn before it is on the page and never learns how wide the page is.

    It also gives every control an accessible name. ipywidgets renders a control's label beside it, without a
    connection that a screen reader could follow: sliders have no name, and the label of a field without `description`
    is hidden. The name is the visible text: the label of the row (see `labeled`) and the control's own description.

    The link of `Why` opens a lesson at its top. If its section is in the same notebook, the page scrolls there instead.
    """

    width = Int(0).tag(sync=True)

    _esm = (
        f"""
    const FIELDS = "[role=slider], select, textarea, input:not([type=checkbox])";
    const CONTROLS = ".{CONTROLS}";
    """
        + """
    const text = (parent, selector) => parent?.querySelector(":scope > " + selector)?.textContent.trim();

    function nameControls(controls) {
      for (const field of controls.querySelectorAll(FIELDS)) {
        const widget = field.closest(".jupyter-widgets");
        const labels = [text(widget.parentElement, ".jupyter-widgets.widget-label"), text(widget, ".widget-label")];
        const name = labels.filter(Boolean).join(" ") || field.placeholder?.replace("\u200b", "");
        if (name) field.setAttribute("aria-label", name);
      }
    }

    function scrollToSection(event) {
      const link = event.target.closest(".alibi-why a"), name = link && decodeURIComponent(link.hash.slice(1));
      const headings = link?.closest(".jp-Notebook")?.querySelectorAll("[data-jupyter-id]") ?? [];
      const section = [...headings].find((heading) => heading.dataset.jupyterId === name);
      if (!section) return;
      event.preventDefault();
      section.scrollIntoView({ behavior: "smooth" });
    }

    export default {
      render({ model, el }) {
        const sizes = new ResizeObserver(([entry]) => {
          const width = Math.floor(entry.contentRect.width);
          if (width > 0 && width !== model.get("width")) {
            model.set("width", width);
            model.save_changes();
          }
        });
        let naming, closed = false;
        const start = () => {
          const app = el.closest(".alibi-app"), controls = app?.querySelector(CONTROLS);
          if (!controls) return closed || requestAnimationFrame(start);  // not on the page yet
          sizes.observe(app);
          app.querySelector(".alibi-caption").ariaLive = "polite";  // here, since its HTML changes with every caption
          app.addEventListener("click", scrollToSection);
          nameControls(controls);
          naming = new MutationObserver(() => nameControls(controls));
          naming.observe(controls, { childList: true, characterData: true, subtree: true });
        };
        requestAnimationFrame(start);
        return () => { closed = true; sizes.disconnect(); naming?.disconnect(); };
      },
    };
    """
    )
