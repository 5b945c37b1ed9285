"""Turn what our docstrings share with Markdown into reStructuredText, which autodoc reads."""

import re
from inspect import Parameter, Signature, signature
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from alibi_viz.widgets import App

# Names of code stand between backticks. Elsewhere, these signs are themselves.
CODE_OR_SIGN = re.compile(r"(`[^`]*`)|([*|])")


def escape(text: str) -> str:
    r"""Text in which a star or a bar is no markup.

    >>> print(escape("The bias `-m |i - j|` is -m |i - j|."))
    The bias `-m |i - j|` is -m \|i - j\|.
    """

    def escaped(match: re.Match[str]) -> str:
        code, sign = match.groups()
        return code or f"\\{sign}"

    return CODE_OR_SIGN.sub(escaped, text)


def to_restructured_text(docstring: str) -> str:
    r"""A docstring with signs escaped, and with "::" before indented code.

    >>> print(to_restructured_text("Of 2 * 2 heads:\n\n    bias(2 * 2)"))
    Of 2 \* 2 heads:
    <BLANKLINE>
    ::
    <BLANKLINE>
        bias(2 * 2)
    """
    parts: list[str] = []
    margin = 0  # indentation of the last paragraph
    is_code = False
    for part in re.split(r"\n\s*\n", docstring):
        indentation = len(part) - len(part.lstrip(" "))
        if indentation < margin + 4:
            is_code = False
        elif parts and not is_code:
            is_code = True
            parts.append(" " * margin + "::")
        if is_code or part.lstrip().startswith(">>>"):
            parts.append(part)
        else:
            parts.append(escape(part))
            last_line = part.splitlines()[-1]
            margin = len(last_line) - len(last_line.lstrip(" "))
    return "\n\n".join(parts)


def change_docstring(  # noqa: PLR0917  # the arguments of the event
    app: Sphinx, what: str, name: str, documented: Any, options: Any, lines: list[str]
) -> None:
    """Change the lines of a docstring in place, before napoleon reads its sections."""
    lines[:] = to_restructured_text("\n".join(lines)).split("\n")


def change_signature(  # noqa: PLR0917  # the arguments of the event
    app: Sphinx, what: str, name: str, documented: Any, options: Any, signature: str, returns: str
) -> tuple[str, str] | None:
    """Say of an app what it can be called with, which traitlets hides."""
    if what != "class" or not issubclass(documented, App):
        return None
    if documented is App:  # its subclasses define traits
        return "(**traits)", ""
    return app_signature(documented), ""


def app_signature(app: type[App]) -> str:
    """The arguments of an app, and its traits with their defaults.

    >>> from alibi_viz.widgets import SlopeExplorer
    >>> app_signature(SlopeExplorer)
    "(*, num_heads=8, scheme='official', compare='geometric')"
    """
    parameters = []
    for parameter in list(signature(app.__init__).parameters.values())[1:]:  # without self
        if parameter.kind is not Parameter.VAR_KEYWORD:
            parameters.append(parameter.replace(annotation=Parameter.empty))
    for name in app.state_names():
        default = app.class_traits()[name].default_value
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default))
    return str(Signature(parameters))


def change_long_signatures(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Write arguments, one a line, as plain boxes.

    Sphinx writes them as definitions without terms, at which screen readers stumble.
    """

    def as_boxes(match: re.Match[str]) -> str:
        lines = match[1].replace("<dd>", "<div>").replace("</dd>", "</div>")
        return f'<div class="sig-lines">{lines}</div>'

    if "body" in context:
        context["body"] = re.sub(r"<dl>\s*((?:<dd>.*?</dd>\s*)+)</dl>", as_boxes, context["body"])


def setup(app: Sphinx) -> ExtensionMetadata:
    """Call these functions for everything that autodoc documents."""
    app.connect("autodoc-process-docstring", change_docstring, priority=400)
    app.connect("autodoc-process-signature", change_signature)
    app.connect("html-page-context", change_long_signatures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
