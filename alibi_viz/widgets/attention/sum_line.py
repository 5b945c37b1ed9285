"""The line below the figure of AttentionExplorer: the sum behind a weight."""

from pathlib import Path
from typing import Any

import anywidget
from traitlets import Int, List, Unicode

from alibi_viz.figures import attention_plot


class SumLine(anywidget.AnyWidget):
    """One line about the cell under the pointer, which it outlines in every matrix; see
    sum_line.js."""

    rest = Unicode(help="the line while the pointer is elsewhere").tag(sync=True)
    query = Int(help="the query whose weights are the bars, counted from 0").tag(sync=True)
    matrices: List[Any] = List(list(attention_plot.STEPS), help="traces").tag(sync=True)
    columns = Unicode(attention_plot.COLUMNS, help="the trace above the bars").tag(sync=True)
    _esm = Path(__file__).with_name("sum_line.js").read_text(encoding="utf-8")
    _css = Path(__file__).with_name("sum_line.css").read_text(encoding="utf-8")
