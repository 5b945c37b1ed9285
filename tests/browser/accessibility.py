"""Find what keeps readers with a keyboard, a screen reader or weak eyes from using a page."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

WEIGHTY = ("critical", "serious", "moderate")
# The focused element, and the width in pixels of the outline that shows it, or of a ring. A ring is
# a shadow without an offset and without blur.
FOCUS = r"""() => {
    const element = document.activeElement;
    const style = getComputedStyle(element);
    const outline = style.outlineStyle === 'none' ? 0 : parseFloat(style.outlineWidth);
    const rings = [...style.boxShadow.matchAll(/ 0px 0px 0px ([\d.]+)px(?! inset)/g)];
    const width = Math.max(outline, ...rings.map(ring => parseFloat(ring[1])));
    return [element.outerHTML.slice(0, 120), width];
}"""


def findings(page: Page, within: str = "html", contrast: bool = True) -> list[str]:
    """Findings of axe-core within the element of a CSS selector: impact, rule, element.

    Only those of at least moderate impact are returned. The contrast of colors takes four fifths of
    the time, so a page that has only the colors of others can go without it.
    """
    lines = []
    # Otherwise axe reads style sheets, which a page from a file may not, and lists all elements
    # that pass, which takes half of its time.
    options = {
        "preload": False,
        "resultTypes": ["violations"],
        "rules": {"color-contrast": {"enabled": contrast}},
    }
    for finding in Axe().run(page, within, options).response["violations"]:
        if finding["impact"] not in WEIGHTY:
            continue
        for node in finding["nodes"]:
            lines.append(f"{finding['impact']}, {finding['id']}: {node['html'][:200]}")
    return lines
