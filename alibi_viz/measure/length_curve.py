"""Measure a causal language model of transformers with more and more context.

Losses are in bits per byte, which compare models with different tokenizers: each predicts the same
bytes, and its loss is per byte. That needs tokenizers that keep every byte: unknown tokens, lost
capitals or lost spaces make the number too low.
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
from alibi_viz.measure.questions import find_question
from alibi_viz.measure.table import AS_TRAINED, results_table
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
    """Mean bits per byte of the end of a text, predicted from more and more tokens before it.

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
    returns NaN.

        from pathlib import Path

        from transformers import AutoModelForCausalLM, AutoTokenizer

        from alibi_viz import lab

        model = AutoModelForCausalLM.from_pretrained("bigscience/bloom-560m")
        tokenizer = AutoTokenizer.from_pretrained("bigscience/bloom-560m")
        table = lab.length_curve(model, tokenizer, Path("book.txt"), [512, 1024, 2048, 4096])
    """
    lengths = positive_integers("lengths", lengths)
    shortest = min(lengths)
    if stride is None:
        stride = max(1, shortest // 8)
    if trained is None:
        trained = shortest
    check_positive_integers(targets=targets, stride=stride)
    check_integer("trained", trained, 1, 2**63 - 1)  # what a column of integers holds
    if stride > shortest:
        raise ValueError(f"stride must be at most the shortest length, {shortest}, got {stride}")

    source, data = evaluated_bytes(text)
    # The targets start up to 3 bytes earlier, with a whole character.
    cut = max(0, len(data) - targets)
    while cut and data[cut] & 0xC0 == 0x80:
        cut -= 1

    context = encode(model, tokenizer, data[:cut])
    predicted = encode(model, tokenizer, data[cut:])
    predicted_bytes = len(data) - cut

    limit = longest_context(model) or math.inf
    longest = max((length for length in lengths if length <= limit), default=0)
    if not cut or len(context) < longest:
        raise ValueError(
            f"the text is too short: sequences of {longest:,} tokens are needed before the "
            f"{targets:,} bytes to predict, and {source.name} has {len(context):,} there; choose "
            "shorter lengths or fewer targets"
        )

    tokens = torch.cat((context, predicted))
    config: Any = model.config
    family = str(config.model_type)
    name = getattr(config, "_name_or_path", "") or family
    changes = [str(change) for change in changes_of(model)]
    label = ", ".join([name, *filter(None, changes)])

    question = find_question("sliding windows")
    rows = []
    for length in lengths:
        value = math.nan
        if length <= limit:
            bits = _bits_of_last(len(predicted), model, tokens, length=length, stride=stride)
            value = float(bits.sum()) / predicted_bytes
        rows.append(
            {
                "origin": "live",
                "task": "text",
                "method": family,
                "label": label,
                # Tables are compared by label. Only the lab's own changes have a name here.
                "variant": AS_TRAINED,
                "seed": 0,
                "length": trained,
                "step": 0,
                "question": question.name,
                "x": length,
                "value": value,
                "unit": question.unit,
                "count": predicted_bytes,
                "text": source.fingerprint,
            }
        )
    return results_table(rows)


def evaluated_bytes(text: Text | str | bytes | Path | None) -> tuple[Text, bytes]:
    """The text, and the bytes to test on.

    They are the validation part of a `Text` or of the built-in text, and all of anything else.
    """
    if text is None:
        text = load_text()
    if isinstance(text, Text):
        return text, text.validation.numpy().tobytes()
    _, data = read_text(text)
    return load_text(text), data


def encode(model: nn.Module, tokenizer: Any, data: bytes) -> Tensor:
    """The tokens of bytes in UTF-8, int64 [tokens], none for no bytes. Raises as `length_curve`."""
    if not callable(getattr(model, "get_input_embeddings", None)):
        raise TypeError(
            f"model must be a causal language model of transformers, got {type(model).__name__}"
        )
    string = data.decode("utf-8", "ignore")  # the validation part may start inside a character
    if not string:
        return torch.tensor([], dtype=torch.long)
    ids = token_ids(model, tokenizer, string, add_special_tokens=False)
    return torch.tensor(ids, dtype=torch.long)


def _bits_of_last(
    count: int, model: nn.Module, tokens: Tensor, *, length: int, stride: int
) -> Tensor:
    """Bits for the last `count` tokens, float64 [count], in sequences that slide by `stride`."""
    sequences_needed = math.ceil(count / stride)
    # The first sequence has `length` tokens and a target after each; the others add `stride` more.
    tokens_needed = length + 1 + (sequences_needed - 1) * stride
    sequences = tokens[-tokens_needed:].unfold(0, length + 1, stride)

    def logits(tokens: Tensor) -> Tensor:
        output = model(input_ids=tokens, use_cache=False, logits_to_keep=stride)
        if getattr(output, "logits", None) is None or output.logits.ndim != 3:
            raise ValueError(
                f"model must have a language-modeling head, got {type(model).__name__}"
            )
        return output.logits[:, -stride:].float()

    with evaluating(model) as device:
        nats = target_losses(logits, sequences.to(device), stride)
        bits = nats.flatten().double() / math.log(2)
    if not bool(bits.isfinite().all()):
        raise ValueError(
            f"the model returns NaN or infinite losses in sequences of {length:,} tokens"
        )
    # The first sequence may predict more than is asked.
    return bits[-count:]
