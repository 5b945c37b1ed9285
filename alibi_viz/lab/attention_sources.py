"""Sources of queries and keys for `AttentionExplorer`: made up from words, or computed by a model from a text."""

import importlib
import math
import os
import random
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from reprlib import repr as short
from typing import Any, Protocol

import pandas as pd
import regex
import torch
from torch import Tensor, nn

from alibi_viz.attention import AttentionTrace
from alibi_viz.models import LanguageModel
from alibi_viz.models.positions.custom import LawFunction, law_class
from alibi_viz.models.positions.relative import Alibi
from alibi_viz.pretrained import (
    Layers,
    family_name,
    family_of,
    longest_context,
    separate_layers,
    shared_copy,
    token_ids,
)
from alibi_viz.slopes import alibi_slopes

HEAD_DIM = 16
SAME_WORD = 2  # q . k / sqrt(d) of a word with itself; a head with slope 1/8 subtracts the same over 16 tokens
# A punctuation mark, or a run of other characters. Apostrophes, hyphens and underscores do not end a word; accents and
# the joiners of emoji stay with the character before them. \x1c-\x1f are white space for str.split, not for regex.
MARK = r"[\p{P}--['\N{RIGHT SINGLE QUOTATION MARK}\-_]]"
TOKEN = regex.compile(rf"(?V1){MARK}[\p{{M}}\p{{Cf}}]*|[^\s\x1c-\x1f{MARK}]+")
WORD = regex.compile(r"[^\s\x1c-\x1f]+")
VISIBLE_BYTES = {0x20: "␣", 0x0A: "↵", 0x09: "⇥"}


@dataclass(frozen=True, eq=False)
class Reading:
    """The tokens of a text, with the queries and keys that one attention layer computes from them."""

    tokens: list[str]  # those that were read
    query: Tensor  # [1, heads, tokens, head_dim]
    key: Tensor  # [1, heads, tokens, head_dim]
    slopes: Tensor  # [heads]
    total: int  # number of tokens in the whole text, which may be more than were read
    note: str  # a sentence on how the content, q . k / sqrt(d), was computed


class AttentionSource(Protocol):
    """Turns a text into queries and keys. Any object with this interface can be the source of an app."""

    contents: tuple[str, ...]  # names of the contents it offers, such as layers
    num_heads: int | None  # its number of heads, or None if it can have any number

    def read(self, text: str, content: str, num_heads: int, longest: int) -> Reading:
        """Read at most `longest` tokens. Raises ValueError for unknown content, other heads, or an empty text."""


def check_reading(source: AttentionSource, content: str, num_heads: int) -> None:
    """Raise ValueError for content or a number of heads that the source doesn't have."""
    if content not in source.contents:
        raise ValueError(f"content must be one of {', '.join(source.contents)}, got {content!r}")
    if source.num_heads is not None and num_heads != source.num_heads:
        raise ValueError(f"num_heads must be {source.num_heads}, as in the model, got {num_heads}")


_WORD_NOTES = {  # how each content of `Words` is computed
    "same word": f"Content is made up, the same in every head: {SAME_WORD} between equal words at any distance, and a "
    "fixed random number around 0 between different words.",
    "equal": "Content is 0 for every pair, so the weights show the bias alone.",
    "random": "Content is random: queries and keys are standard normal numbers, whatever the words.",
}


class Words:
    """Words and punctuation marks, with made-up content.

    With "same word", each word has a random vector of its own, which is its query and its key; q . k / sqrt(d) is 2
    between equal words and random with standard deviation 0.5 for other pairs. Case is ignored. With "equal", it is 0
    for every pair. With "random", queries and keys are standard normal numbers, different in each head.

    >>> from alibi_viz.lab.attention_sources import Words
    >>> reading = Words().read("The cat saw the cat", "same word", num_heads=8, longest=48)
    >>> (attention_trace(reading.query, reading.key, None).content[0, 0, 4] - 2).abs() < 1e-5  # the last "cat"
    tensor([False,  True, False, False,  True])
    """

    contents: tuple[str, ...] = tuple(_WORD_NOTES)
    num_heads: int | None = None

    def read(self, text: str, content: str, num_heads: int, longest: int) -> Reading:
        check_reading(self, content, num_heads)
        tokens = words(text)
        if not tokens:
            raise ValueError(f"text must have at least one word, got {text[:20]!r}")
        total, tokens = len(tokens), tokens[:longest]
        if content == "random":
            shape = len(tokens), 2, 1, num_heads, HEAD_DIM  # the first tokens get the same in any text
            query, key = torch.randn(shape, generator=torch.Generator().manual_seed(0)).permute(1, 2, 3, 0, 4)
        else:
            vectors = torch.tensor([_vector(token) for token in tokens]) * (content != "equal")
            query = key = vectors.expand(1, num_heads, *vectors.shape)
        return Reading(tokens, query, key, alibi_slopes(num_heads), total, _WORD_NOTES[content])


def words(text: str) -> list[str]:
    """Split a text into words and punctuation marks; apostrophes, hyphens and underscores do not end a word.

    >>> from alibi_viz.lab.attention_sources import words
    >>> words("Don't panic, well-known cat: <b>!!")
    ["Don't", 'panic', ',', 'well-known', 'cat', ':', '<b>', '!', '!']
    """
    return [match.group() for match in TOKEN.finditer(text)]


@lru_cache(8192)
def _vector(word: str) -> list[float]:
    """A random vector v with v . v / sqrt(head_dim) = 2, seeded by the word, so the same on every machine."""
    generator = random.Random(unicodedata.normalize("NFC", word).casefold())
    vector = [generator.gauss(0, 1) for _ in range(HEAD_DIM)]
    scale = math.hypot(*vector) / math.sqrt(SAME_WORD * math.sqrt(HEAD_DIM))
    return [value / scale for value in vector]


class ModelRun:
    """A model that reads the first tokens of a text, layer by layer. Threads may share it.

    It keeps the input of each layer, so that every layer that has one can be read at once: 16 MiB per layer for 4,096
    tokens and a width of 1,024. `total` is the number of tokens in the whole text; "{layer}" in `note` is filled in.
    """

    def __init__(self, tokens: list[str], total: int, layers: Layers, note: str) -> None:
        self.tokens, self.total, self._layers, self._note = tokens, total, layers, note
        self._inputs = [layers.hidden]  # of each layer that has one already
        self._lock = threading.Lock()

    @property
    def done(self) -> int:
        """The number of layers that can be read."""
        return len(self._inputs)

    def steps(self, layer: int) -> Iterator[int]:
        """Run the model until `layer`, counted from 0, can be read; yield how many can be. Nothing is computed twice.

        A layer that fails raises its error, and runs again at the next call.
        """
        while self.done <= layer:
            with self._lock, torch.inference_mode():
                if self.done <= layer:  # another thread may have been faster
                    self._inputs.append(self._layers.blocks[self.done - 1](self._inputs[-1]))
            yield self.done

    @torch.inference_mode()
    def read(self, layer: int) -> Reading:
        """The tokens, queries and keys of a layer. Runs the model up to it. Raises ValueError if they aren't finite."""
        for _ in self.steps(layer):
            pass
        query, key, slopes = (part.float().cpu() for part in self._layers.heads[layer](self._inputs[layer]))
        if not bool((query.isfinite() & key.isfinite()).all()):
            raise ValueError("the model's queries and keys must be finite: its training has diverged")
        return Reading(self.tokens, query, key, slopes, self.total, self._note.format(layer=layer + 1))


class ModelSource:
    """Base class of sources that run a model. `start` lets one run serve all layers, and be spread over time."""

    def __init__(self, model: Any, num_layers: int, num_heads: int | None) -> None:
        self.model, self.num_heads = model, num_heads
        self.contents: tuple[str, ...] = tuple(f"layer {layer + 1}" for layer in range(num_layers))

    def start(self, text: str, longest: int) -> ModelRun:
        """Prepare to read at most `longest` tokens; no layer runs yet. Raises ValueError for an empty text."""
        raise NotImplementedError

    def read(self, text: str, content: str, num_heads: int, longest: int) -> Reading:
        check_reading(self, content, num_heads)
        return self.start(text, longest).read(self.contents.index(content))


class ByteModel(ModelSource):
    """The bytes of a text, and the queries and keys of a layer of a `LanguageModel`. Raises ValueError without ALiBi.

    >>> from alibi_viz.lab.attention_sources import ByteModel
    >>> source = ByteModel(lab.make_model("alibi"))
    >>> source.contents, source.num_heads
    (('layer 1', 'layer 2'), 8)
    >>> source.read("to be", "layer 2", num_heads=8, longest=48).tokens
    ['t', 'o', '␣', 'b', 'e']
    """

    def __init__(self, model: LanguageModel) -> None:
        if not isinstance(model.transformer.position, Alibi):
            raise ValueError(f"the model must have position 'alibi', got {model.config.position!r}")
        super().__init__(model, model.config.num_layers, model.config.num_heads)

    @torch.inference_mode()
    def start(self, text: str, longest: int) -> ModelRun:
        data = list(text.encode("utf-8", "replace"))
        if not data:
            raise ValueError("text must have at least one byte, got ''")
        model = shared_copy(self.model).eval()  # the model itself can be trained meanwhile
        blocks: list[Any] = list(model.transformer.blocks)

        def heads(block: Any, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            query, key, _ = block.attention.heads(block.norm_attention(hidden))
            return query, key, block.attention.position.slopes

        hidden = model.embedding(torch.tensor([data[:longest]], device=model.head.weight.device))  # no positions yet
        layers = Layers(hidden, blocks, [partial(heads, block) for block in blocks])
        note = f"Content comes from layer {{layer}} of {len(blocks)} of the model as it is trained. Tokens are bytes."
        return ModelRun([_byte(value) for value in data[:longest]], len(data), layers, note)


class PretrainedModel(ModelSource):
    """The tokens of a text, and the queries and keys of a layer of a BLOOM, MPT or Falcon model of transformers.

    For `widgets.AttentionExplorer`, give the name of a model, or a model and a tokenizer that you have loaded:

        widgets.AttentionExplorer(source="bigscience/bloom-560m")
        widgets.AttentionExplorer(source=lab.PretrainedModel(model, tokenizer))

    The result equals what the model computes, with two exceptions for Falcon: it rounds biases to bfloat16, and eager
    attention adds them twice. Raises ValueError for another family of models, or one without ALiBi.
    """

    def __init__(self, model: nn.Module, tokenizer: Any) -> None:
        family = family_of(model)
        layers = family.layers(model)
        super().__init__(model, len(layers), len(family.slopes(layers[0])))
        self.tokenizer = tokenizer

    @classmethod
    def from_pretrained(cls, name: str) -> "PretrainedModel":
        """Load a model and its tokenizer with transformers, from a folder or from its cache of downloaded models.

        Nothing is downloaded. Raises ImportError without transformers, and ValueError if the model is not on this
        machine, cannot be loaded, or its configuration, which is checked first, has another family or no ALiBi.
        """
        try:
            transformers: Any = importlib.import_module("transformers")
        except ImportError as error:
            raise ImportError(f"to load the model {name!r}, install transformers: pip install transformers") from error
        try:
            family_name(transformers.AutoConfig.from_pretrained(name, local_files_only=True))
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, local_files_only=True)
            return cls(transformers.AutoModel.from_pretrained(name, local_files_only=True), tokenizer)
        except (ImportError, KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
            hint = f"if it is not on this machine, download it once: hf download {name}"
            raise ValueError(f"cannot load the model {name!r}: {error}; {hint}") from error

    def start(self, text: str, longest: int) -> ModelRun:
        ids = token_ids(self.model, self.tokenizer, text)
        read = ids[: min(longest, longest_context(self.model) or longest)]
        raw = self.tokenizer.convert_ids_to_tokens(read)
        tokens = [_decoded(self.tokenizer, at) or str(token) for at, token in zip(read, raw, strict=True)]
        layers = separate_layers(self.model, torch.tensor([read], device=next(self.model.parameters()).device))
        note = f"Content comes from layer {{layer}} of {len(self.contents)} of a pretrained model."
        return ModelRun(tokens, len(ids), layers, note)


def as_source(source: AttentionSource | LanguageModel | str | None) -> AttentionSource:
    """The source that the argument `source` of an app stands for. Raises as `AttentionExplorer`."""
    if source is None:
        return Words()
    if isinstance(source, LanguageModel):
        return ByteModel(source)
    hint = "; for a model of transformers, give lab.PretrainedModel(model, tokenizer)" * hasattr(source, "config")
    if isinstance(source, str):
        if " " not in source or os.path.isdir(source):  # pathlib raises for a long text
            return PretrainedModel.from_pretrained(source)
        hint = "; pass a text as text="
    elif hasattr(source, "read"):
        return source
    expected = "a LanguageModel, the name of a pretrained model or a lab.attention_sources.AttentionSource"
    raise TypeError(f"source must be {expected}, got {short(source)}{hint}")


def _byte(value: int) -> str:
    """A byte as its ASCII character, or in hexadecimal."""
    return VISIBLE_BYTES.get(value) or (chr(value) if 0x20 < value < 0x7F else f"{value:02x}")


def _decoded(tokenizer: Any, token: int) -> str:
    """The text of a token with visible spaces; empty if it is part of a character, or the tokenizer cannot decode."""
    text = tokenizer.decode([token]) if hasattr(tokenizer, "decode") else ""
    return "" if "\N{REPLACEMENT CHARACTER}" in text else text.replace(" ", VISIBLE_BYTES[0x20])


def law_curve(law: LawFunction, num_heads: int, length: int) -> Tensor:
    """The bias of a law for the distances 0 to length - 1: float32 [heads, length].

    Raises ValueError, naming the law and the value, if the law fails, returns another shape, NaN or inf, or gives
    different values when it is called again.

    >>> from alibi_viz import laws
    >>> law_curve(laws.square_root, num_heads=1, length=5)
    tensor([[ 0.0000, -0.0039, -0.0055, -0.0068, -0.0078]])
    """
    curve = law_class(law.__name__, law)(num_heads).curve(torch.arange(length))
    return curve + 0.0  # -0.0 becomes 0.0


def trace_queries(
    query: Tensor, key: Tensor, curve: Tensor | None, queries: Sequence[int], *, causal: bool
) -> AttentionTrace:
    """Every step of attention for the queries at some positions: tensors [1, heads, len(queries), tokens].

    A long text needs only the rows that are shown: all of them, for 4,096 tokens and 8 heads, would take 2 GB.
    `query` and `key` are those of the whole text. `curve` is the bias by distance, [heads, tokens] from `law_curve`, or
    None for no bias. Without a causal mask, keys on both sides get the bias of |i - j|.

    >>> q = k = torch.zeros(1, 1, 4, 2)
    >>> trace_queries(q, k, -torch.arange(4.0)[None], range(2, 3), causal=True).weights
    tensor([[[[0.0900, 0.2447, 0.6652, 0.0000]]]])
    """
    positions = torch.tensor(queries)
    content = (query[:, :, positions] / query.shape[-1] ** 0.5) @ key.transpose(-2, -1)
    distance = positions[:, None] - torch.arange(key.shape[2])  # [query, key]
    bias = content.new_zeros(1).expand_as(content) if curve is None else curve.to(content)[None, :, distance.abs()]
    logits = content + bias
    if causal:
        logits.masked_fill_(distance < 0, -math.inf)
    return AttentionTrace(content, bias, logits, logits.softmax(-1))


def shuffle_words(text: str, seed: int) -> str:
    """Shuffle all words of a text before the last one; spaces and line breaks stay where they are.

    Words are separated by white space, so punctuation moves with its word. The result differs from `text` unless all
    these words are equal or there is at most one.

    >>> from alibi_viz.lab.attention_sources import shuffle_words
    >>> shuffle_words("the cat sat on the mat", seed=1)
    'sat on the the cat mat'
    """
    words = WORD.findall(text)[:-1]
    shuffled, generator = list(words), random.Random(seed)
    while shuffled == words and len(set(words)) > 1:
        generator.shuffle(shuffled)
    order = iter(shuffled)
    return WORD.sub(lambda match: next(order, match.group()), text)


def weight_by_word(reading: Reading, curve: Tensor | None, head: int, *, causal: bool) -> "pd.Series[float]":
    """How much weight the last query of a head, counted from 0, gives to each word; to equal words together.

    `curve` is that of `trace_queries`.
    """
    last = [len(reading.tokens) - 1]
    weights = trace_queries(reading.query, reading.key, curve, last, causal=causal).weights[0, head, 0]
    return pd.Series(weights.numpy()).groupby(reading.tokens).sum()
