"""The spans of heads: how far back they look in a text, and how much of attention can therefore be left out."""

import pandas as pd

from alibi_viz.arguments import check_positive_integers
from alibi_viz.attention import attention_trace
from alibi_viz.attention.inputs import AttentionInputs
from alibi_viz.attention.spans import attention_spans, share_left_out
from alibi_viz.lab.attention_sources import AttentionSource, ByteModel, Reading
from alibi_viz.models import LanguageModel

_TRACED = 2**23  # weights computed at a time, to bound the memory


def window_table(
    source: AttentionSource | LanguageModel, text: str, *, num_heads: int = 8, longest: int = 4096
) -> pd.DataFrame:
    """The span of each head, which is how many steps back it looks in a text, with causal attention in float32.

    Beyond a head's span, all keys together have at most 2^-24 of the weight of every query: half a unit in the last
    place of float32, so `alibi_attention` can leave them out.

    Args:
        source: a `LanguageModel` with ALiBi, a `lab.PretrainedModel`, or another `lab.attention_sources` source.
        text: at most `longest` of its tokens are read.
        num_heads: for a source that can have any number of heads.
        longest: the time and memory grow with its square; 4,096 tokens take about a second per layer of 8 heads.

    Returns one row per layer and head:

        content: the layer, such as "layer 1", or another of the source's `contents`
        head: counted from 1
        slope: the slope of the head
        bound: the span that `alibi_attention` finds without computing the weights; at most to the first token
        needed: the smallest span, read from the weights
        left_out: the share of the pairs of query and key beyond the bound, 0 to 1

    Raises ValueError for an empty text, a model without ALiBi, and a number that is not an integer of at least 1.

    >>> from alibi_viz.lab.attention_sources import Words
    >>> table = lab.window_table(Words(), "word " * 1000, num_heads=2)
    >>> table[table.content == "equal"].round(3)
      content  head  slope  bound  needed  left_out
    2   equal     1  0.062    291     266     0.501
    3   equal     2  0.004    999     999     0.000
    """
    check_positive_integers(num_heads=num_heads, longest=longest)
    source = ByteModel(source) if isinstance(source, LanguageModel) else source
    tables = []
    for content in source.contents:
        table = head_spans(source.read(text, content, source.num_heads or num_heads, longest))
        table.insert(0, "content", content)
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def head_spans(reading: Reading) -> pd.DataFrame:
    """The columns of `window_table` except "content", for what one layer has read."""
    query, key = reading.query.float(), reading.key.float()
    inputs = AttentionInputs.checked(query, key, key, reading.slopes)
    bound = [min(window, inputs.key_length - 1) for window in attention_spans(inputs).tolist()]
    heads, length = query.shape[1:3]
    step = max(1, _TRACED // (heads * length))  # queries traced at a time
    parts = (slice(start, start + step) for start in range(0, length, step))
    spans = [attention_trace(query[:, :, part], key[:, :, : part.stop], inputs.slopes).spans() for part in parts]
    return pd.DataFrame(
        {
            "head": range(1, heads + 1),
            "slope": reading.slopes.tolist(),
            "bound": bound,
            "needed": [max(of_head) for of_head in zip(*spans, strict=True)],
            "left_out": [share_left_out(inputs, (span,)) for span in bound],
        }
    )
