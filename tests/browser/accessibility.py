"""Find what keeps readers with a keyboard, a screen reader or weak eyes from using a page."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

WEIGHTY = ("critical", "serious", "moderate")
# The focused element, and the width of the outline that shows it, in pixels.
FOCUS = """() => {
    const element = document.activeElement;
    const style = getComputedStyle(element);
    const width = style.outlineStyle === 'none' ? 0 : parseFloat(style.outlineWidth);
    return [element.outerHTML.slice(0, 120), width];
}"""


def findings(page: Page, within: str = "html") -> list[str]:
    """Findings of axe-core within the element of a CSS selector: impact, rule, element.

    Only those of at least moderate impact are returned.
    """
    lines = []
    for finding in Axe().run(page, within).response["violations"]:
        if finding["impact"] not in WEIGHTY:
            continue
        for node in finding["nodes"]:
            lines.append(f"{finding['impact']}, {finding['id']}: {node['html'][:200]}")
    return lines
