"""Measure a causal language model of transformers with more and more context, in bits per byte.

Bits per byte compare models with different tokenizers: each predicts the same bytes, and its loss
is per byte. That needs tokenizers that keep every byte: unknown tokens, lost capitals or lost
spaces make the number too low.
"""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from alibi_viz.arguments import check_integer, check_positive_integers, positive_integers
from alibi_viz.data.text import Text, load_text, read_text
from alibi_viz.measure.losses import evaluating, target_losses
from alibi_viz.measure.questions import SLIDING_WINDOWS
from alibi_viz.measure.table import AS_TRAINED, results_table
from alibi_viz.memory import check_memory
from alibi_viz.models.pretrained import longest_context, token_ids
from alibi_viz.surgery.modify import changes_of


def length_curve(
    model: nn.Module,
    tokenizer: Any,
    text: Text | str | bytes | Path | None,
    lengths: Iterable[int],
    *,
    targets: int = 4096,
    stride: int | None = None,
    trained: int | None = None,
) -> pd.DataFrame:
    """Mean bits per byte of the end of a text, each token predicted from n tokens before it, for
    each n in `lengths`.

    The targets are the same at every length: the tokens of the last bytes of the text. Sequences
    slide over them, so longer ones don't gain from having fewer first positions.

    Args:
        model: a causal language model of transformers, with its head; any family, also from
            `lab.modify`.
        tokenizer: called as `tokenizer(text, add_special_tokens=False)["input_ids"]`.
        text: a string, bytes in UTF-8 or a file, of which all is used; or a `Text`, of which the
            validation part is used, or None for the built-in one.
        lengths: numbers of tokens in a sequence. The loss is NaN beyond the positions that the
            model has, such as GPT-2's table or MPT's `config.max_seq_len`, which you may raise
            before the call.
        targets: how many bytes to predict, plus up to 3 to start with a whole character.
        stride: by how much a sequence slides, in tokens. Each predicts as many targets, which see n
            - stride + 1 to n tokens. With 1, every target sees exactly n. Default: an eighth of the
            shortest length.
        trained: the training length, for the column "length"; the shortest of `lengths` by default.

    Returns a table with the columns of `COLUMNS`, one row per length, for the question "sliding
    windows": x is the number of tokens, count the number of bytes predicted, label the model's name
    or family and what `lab.modify` changed. Show it with `widgets.ComparisonExplorer(table)`.

    Raises TypeError for a model without token embeddings or a text of another type; ValueError if a
    number is out of range, the text is empty, not UTF-8 or too short, the tokenizer returns no
    tokens or tokens that the model doesn't have, or the model has no language-modeling head or
    returns NaN; MemoryError if `lengths` need too much.

        model = AutoModelForCausalLM.from_pretrained("bigscience/bloom-560m")
        tokenizer = AutoTokenizer.from_pretrained("bigscience/bloom-560m")
        table = lab.length_curve(model, tokenizer, Path("book.txt"), [512, 1024, 2048, 4096])
    """
    lengths = positive_integers("lengths", lengths)
    stride = max(1, min(lengths) // 8) if stride is None else stride
    trained = min(lengths) if trained is None else trained
    check_positive_integers(targets=targets, stride=stride)
    check_integer("trained", trained, 1, 2**63 - 1)  # what a column of integers holds
    if stride > min(lengths):
        raise ValueError(
            f"stride must be at most the shortest length, {min(lengths)}, got {stride}"
        )
    source, data = evaluated_bytes(text)
    cut = max(0, len(data) - targets)
    while cut and data[cut] & 0xC0 == 0x80:  # inside a character
        cut -= 1
    context, predicted = (encode(model, tokenizer, part) for part in (data[:cut], data[cut:]))
    limit = longest_context(model) or math.inf
    longest = max((each for each in lengths if each <= limit), default=0)
    config: Any = model.config
    heads = getattr(config, "num_attention_heads", 0)  # Mamba has none
    eager = (
        getattr(config, "_attn_implementation", "") == "eager"
    )  # keeps all pairs, before and after softmax
    pair = (
        8 * heads if eager else 4 * heads * bool(getattr(config, "alibi", False))
    )  # Falcon has a mask
    check_memory("lengths", longest, lambda n: pair * n * n, next(model.parameters()).device)
    if not cut or len(context) < longest:
        hint = "; a string is the text itself, for a file give a pathlib.Path" * isinstance(
            text, str
        )
        needs = (
            f"sequences of {longest:,} tokens are needed before the {targets:,} bytes to predict"
        )
        has = (
            f"{source.name} has {len(context):,} there; choose shorter lengths or fewer "
            f"targets{hint}"
        )
        raise ValueError(f"the text is too short: {needs}, and {has}")
    family = str(config.model_type)
    name = getattr(config, "_name_or_path", "") or family
    tokens, count = torch.cat((context, predicted)), math.ceil(len(predicted) / stride)

    def loss(length: int) -> float:
        if length > limit:
            return math.nan
        start = count * stride + length - stride + 1  # tokens from the end
        every = tokens[-start:].unfold(0, length + 1, stride)  # [count, length + 1]
        bits = _bits(model, every, stride)[-len(predicted) :]  # the first sequence may predict more
        return float(bits.sum()) / (len(data) - cut)

    row = {
        "origin": "live",
        "task": "text",
        "method": family,
        "seed": 0,
        "length": trained,
        "step": 0,
    }
    row |= {
        "question": SLIDING_WINDOWS.name,
        "unit": SLIDING_WINDOWS.unit,
        "text": source.fingerprint,
    }
    row |= {
        "label": ", ".join(filter(None, (name, *map(str, changes_of(model))))),
        "count": len(data) - cut,
    }
    row["variant"] = (
        AS_TRAINED  # so that tables are compared by label; the lab's own changes have a name here
    )
    return results_table(row | {"x": length, "value": loss(length)} for length in lengths)


def evaluated_bytes(text: Text | str | bytes | Path | None) -> tuple[Text, bytes]:
    """The text, and the bytes to test on: the validation part of a `Text`, and all of anything
    else."""
    if text is None or isinstance(text, Text):
        source = text or load_text()
        return source, source.validation.numpy().tobytes()
    return load_text(text), read_text(text)[1]


def encode(model: nn.Module, tokenizer: Any, data: bytes) -> Tensor:
    """The tokens of bytes in UTF-8, int64 [tokens], none for no bytes. Raises as `length_curve`."""
    if not callable(getattr(model, "get_input_embeddings", None)):
        raise TypeError(
            f"model must be a causal language model of transformers, got {type(model).__name__}"
        )
    string = data.decode("utf-8", "ignore")  # the validation part may start inside a character
    ids = token_ids(model, tokenizer, string, add_special_tokens=False) if string else []
    return torch.tensor(ids, dtype=torch.long)


def _bits(model: nn.Module, sequences: Tensor, stride: int) -> Tensor:
    """Bits for the last `stride` tokens of each sequence, float64 [count * stride], from those
    before them."""

    def logits(tokens: Tensor) -> Tensor:
        output = model(input_ids=tokens, use_cache=False, logits_to_keep=stride)
        if getattr(output, "logits", None) is None or output.logits.ndim != 3:
            raise ValueError(
                f"model must have a language-modeling head, got {type(model).__name__}"
            )
        return output.logits[:, -stride:].float()

    with evaluating(model) as device:
        bits = target_losses(logits, sequences.to(device), stride).flatten().double() / math.log(2)
    if not bool(bits.isfinite().all()):
        raise ValueError(
            f"the model returns NaN or infinite losses in sequences of {sequences.shape[1] - 1:,} "
            "tokens"
        )
    return bits
