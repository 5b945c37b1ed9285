"""Sources of queries and keys for `AttentionExplorer`: made up from words, or computed by a model from a text."""

import importlib
import math
import os
import random
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import regex
import torch
from torch import Tensor, nn

from alibi_viz.adapters import attention_layers, pretrained_heads
from alibi_viz.lab.evaluation import evaluating
from alibi_viz.models import Alibi, LanguageModel
from alibi_viz.slopes import alibi_slopes

__all__ = ["AttentionSource", "ByteModel", "PretrainedModel", "Reading", "Words", "words"]

HEAD_DIM = 16
SAME_WORD = 2  # q . k / sqrt(d) of a word with itself; a head with slope 1/8 subtracts the same over 16 tokens
VISIBLE_BYTES = {0x20: "␣", 0x0A: "↵", 0x09: "⇥"}
# A punctuation mark, or a run of other characters. Apostrophes, hyphens and underscores do not end a word; accents and
# the joiners of emoji stay with the character before them. \x1c-\x1f are white space for str.split, not for regex.
MARK = r"[\p{P}--['\N{RIGHT SINGLE QUOTATION MARK}\-_]]"
TOKEN = regex.compile(rf"(?V1){MARK}[\p{{M}}\p{{Cf}}]*|[^\s\x1c-\x1f{MARK}]+")


@dataclass(frozen=True)
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


class Words:
    """Words and punctuation marks, with content made up from the words alone, the same in every head.

    With "same word", each word has a fixed random vector, used as its query and its key, and q . k / sqrt(d) is 2
    between equal words at any distance, and random with standard deviation 0.5 for other pairs. Case is ignored. With
    "equal", it is 0 for every pair, so that the weights show the bias alone.

    >>> from alibi_viz.lab.attention_sources import Words
    >>> reading = Words().read("The cat saw the cat", "same word", num_heads=8, longest=48)
    >>> (attention_trace(reading.query, reading.key, None).content[0, 0, 4] - 2).abs() < 1e-5  # the last "cat"
    tensor([False,  True, False, False,  True])
    """

    contents: tuple[str, ...] = ("same word", "equal")
    num_heads: int | None = None

    def read(self, text: str, content: str, num_heads: int, longest: int) -> Reading:
        _check(self, content, num_heads)
        tokens = words(text)
        if not tokens:
            raise ValueError(f"text must have at least one word, got {text[:20]!r}")
        vectors = torch.tensor([_vector(token) for token in tokens[:longest]])
        note = (
            f"Content is made up, the same in every head: {SAME_WORD} between equal words at any distance, and a "
            "fixed random number around 0 between different words."
        )
        if content == "equal":
            vectors = torch.zeros_like(vectors)
            note = "Content is 0 for every pair, so the weights show the bias alone."
        heads = vectors.expand(1, num_heads, *vectors.shape)
        return Reading(tokens[:longest], heads, heads, alibi_slopes(num_heads), len(tokens), note)


class ByteModel:
    """The bytes of a text, and the queries and keys of a layer of a `LanguageModel`. Raises ValueError without ALiBi.

    >>> from alibi_viz.lab.attention_sources import ByteModel
    >>> source = ByteModel(lab.make_model("alibi"))
    >>> source.contents, source.num_heads
    (('layer 1', 'layer 2'), 4)
    >>> source.read("to be", "layer 2", num_heads=4, longest=48).tokens
    ['t', 'o', '␣', 'b', 'e']
    """

    def __init__(self, model: LanguageModel) -> None:
        if not isinstance(model.transformer.position, Alibi):
            raise ValueError(f"the model must have position 'alibi', got {model.config.position!r}")
        self.model, self.contents = model, _layers(model.config.num_layers)
        self.num_heads: int | None = model.config.num_heads

    def read(self, text: str, content: str, num_heads: int, longest: int) -> Reading:
        _check(self, content, num_heads)
        data = list(text.encode("utf-8", "replace"))
        if not data:
            raise ValueError("text must have at least one byte, got ''")
        layer = self.contents.index(content)
        blocks: list[Any] = list(self.model.transformer.blocks)  # Any: torch does not know the types of submodules
        with evaluating(self.model) as device:
            x = self.model.embedding(torch.tensor([data[:longest]], device=device))  # ALiBi embeds no positions
            for block in blocks[:layer]:
                x = block(x)
            attention = blocks[layer].attention
            query, key, _ = attention.heads(blocks[layer].norm_attention(x))
            query, key, slopes = (part.float().cpu() for part in (query, key, attention.position.slopes))
        if not bool((query.isfinite() & key.isfinite()).all()):
            raise ValueError("the model's queries and keys must be finite: its training has diverged")
        note = (
            f"Content comes from layer {layer + 1} of {len(self.contents)} of the model; tokens are bytes. The "
            "switches affect this layer only: the layers below it run as they were trained."
        )
        return Reading([_byte(value) for value in data[:longest]], query, key, slopes, len(data), note)


class PretrainedModel:
    """The tokens of a text, and the queries and keys of one layer of a BLOOM, MPT or Falcon model.

    For `widgets.AttentionExplorer`, give the name of a model, or a model and a tokenizer that you have loaded:

        widgets.AttentionExplorer(source="bigscience/bloom-560m")
        widgets.AttentionExplorer(source=lab.PretrainedModel(model, tokenizer))

    The result equals what the model computes, with two exceptions for Falcon (see `adapters.pretrained_heads`). Raises
    ValueError for another family of models, or one without ALiBi.
    """

    def __init__(self, model: nn.Module, tokenizer: Any) -> None:
        _, layers = attention_layers(model)
        config: Any = model.config
        self.model, self.tokenizer, self.contents = model, tokenizer, _layers(len(layers))
        self.num_heads: int | None = config.num_attention_heads

    @classmethod
    def from_pretrained(cls, name: str) -> "PretrainedModel":
        """Load a model and its tokenizer with transformers, from a folder or from its cache of downloaded models.

        Nothing is downloaded. Raises ImportError without transformers, and ValueError if the model is not on this
        machine, cannot be loaded, belongs to another family or has no ALiBi.
        """
        try:
            transformers: Any = importlib.import_module("transformers")
        except ImportError as error:
            raise ImportError(f"to load the model {name!r}, install transformers: pip install transformers") from error
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, local_files_only=True)
            model = transformers.AutoModel.from_pretrained(name, local_files_only=True)
        except (ImportError, KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
            if os.path.isdir(name):  # pathlib raises for a long name
                raise ValueError(f"cannot load a model from the folder {name!r}: {error}") from error
            raise ValueError(
                f"the model {name!r} is neither a folder nor among the downloaded models of this machine; with a "
                f"network, download it once: hf download {name}"
            ) from error
        return cls(model, tokenizer)

    def read(self, text: str, content: str, num_heads: int, longest: int) -> Reading:
        _check(self, content, num_heads)
        ids = list(self.tokenizer(text)["input_ids"])
        if not ids:
            raise ValueError(f"the tokenizer of the model returned no tokens for the text {text[:20]!r}")
        layer = self.contents.index(content)
        query, key, slopes = (part.float().cpu() for part in self._heads(ids[:longest], layer))
        raw = self.tokenizer.convert_ids_to_tokens(ids[:longest])
        tokens = [_decoded(self.tokenizer, at) or str(token) for at, token in zip(ids, raw, strict=False)]
        note = f"Content comes from layer {layer + 1} of {len(self.contents)} of a pretrained model."
        return Reading(tokens, query, key, slopes, len(ids), note)

    def _heads(self, ids: list[int], layer: int) -> tuple[Tensor, Tensor, Tensor]:
        device = next(self.model.parameters()).device
        return pretrained_heads(self.model, torch.tensor([ids], device=device), layer)


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


def _byte(value: int) -> str:
    """A byte as its ASCII character, or in hexadecimal."""
    return VISIBLE_BYTES.get(value) or (chr(value) if 0x20 < value < 0x7F else f"{value:02x}")


def _decoded(tokenizer: Any, token: int) -> str:
    """The text of a token with visible spaces; empty if it is part of a character, or the tokenizer cannot decode."""
    text = tokenizer.decode([token]) if hasattr(tokenizer, "decode") else ""
    return "" if "\N{REPLACEMENT CHARACTER}" in text else text.replace(" ", VISIBLE_BYTES[0x20])


def _layers(count: int) -> tuple[str, ...]:
    return tuple(f"layer {layer + 1}" for layer in range(count))


def _check(source: AttentionSource, content: str, num_heads: int) -> None:
    if content not in source.contents:
        raise ValueError(f"content must be one of {', '.join(source.contents)}, got {content!r}")
    if source.num_heads is not None and num_heads != source.num_heads:
        raise ValueError(f"num_heads must be {source.num_heads}, as in the model, got {num_heads}")
