"""Show reports of the checker in its guide as HTML, where GitHub shows a picture of them."""

import re

import torch
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata
from torch import Tensor

import alibi_viz as av

PICTURE = re.compile(r"^!\[.*\]\(.*/images/check\.png\)$", re.MULTILINE)


def right(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """ALiBi attention, without a fault."""
    return av.alibi_attention(query, key, value, av.alibi_slopes(query.shape[1]))


def reversed_bias(num_heads: int, query_length: int, key_length: int) -> Tensor:
    """A bias that rewards distance."""
    return -av.alibi_bias(av.alibi_slopes(num_heads), query_length, key_length)


def no_mask(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention that doesn't hide the keys after a query, and rewards them."""
    bias = av.alibi_bias(av.alibi_slopes(query.shape[1]), query.shape[2], key.shape[2])
    logits = query @ key.mT / query.shape[-1] ** 0.5 + bias
    return torch.softmax(logits, dim=-1) @ value


def show_reports(app: Sphinx, page: str, source: list[str]) -> None:
    """Put reports in place of their picture: they can be read on a phone, and follow the theme."""
    if page != "guides/check":
        return
    reports = {
        "check.attention(right)": av.check.attention(right),
        "check.bias(reversed_bias)": av.check.bias(reversed_bias),
        "check.attention(no_mask)": av.check.attention(no_mask),
    }
    blocks = [
        f'<div class="check-report"><p><code>{call}</code></p>{report._repr_html_()}</div>'
        for call, report in reports.items()
    ]
    html = "\n\n".join(blocks)
    source[0] = PICTURE.sub(lambda _: html, source[0])


def setup(app: Sphinx) -> ExtensionMetadata:
    """Replace the picture before Sphinx reads the guide."""
    app.connect("source-read", show_reports)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
