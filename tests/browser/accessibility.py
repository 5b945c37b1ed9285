"""What axe-core finds on a page: what keeps readers with a keyboard, a screen reader or weak eyes
from using it."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

WEIGHTY = ("critical", "serious", "moderate")
# The focused element, and the width of the outline that shows it, in pixels.
FOCUS = """() => {
    const element = document.activeElement, { outlineStyle, outlineWidth } = getComputedStyle(element);
    return [element.outerHTML.slice(0, 120), outlineStyle === 'none' ? 0 : parseFloat(outlineWidth)];
}"""


def findings(page: Page, within: str = "html") -> list[str]:
    """Findings of at least moderate impact within the element of a CSS selector: impact, rule,
    element."""
    return [
        f"{finding['impact']}, {finding['id']}: {node['html'][:200]}"
        for finding in Axe().run(page, within).response["violations"]
        if finding["impact"] in WEIGHTY
        for node in finding["nodes"]
    ]
