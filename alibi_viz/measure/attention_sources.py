"""Sources of queries and keys for `AttentionExplorer`: made up from words, or computed by a model
from a text."""

import importlib
import math
import os
import random
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from reprlib import repr as short
from typing import Any, Protocol

import regex
import torch
from torch import Tensor, nn

from alibi_viz.arguments import check_choice
from alibi_viz.measure.losses import evaluating
from alibi_viz.models import LanguageModel
from alibi_viz.models.positions.relative import Alibi
from alibi_viz.models.pretrained import (
    attention_inputs,
    family_name,
    family_of,
    hooked,
    longest_context,
    token_ids,
)
from alibi_viz.slopes import alibi_slopes

HEAD_DIM = 16
# Q . k / sqrt(d) of a word with itself; a head with slope 1/8 subtracts the same over 16 tokens
SAME_WORD = 2
# A punctuation mark, or a run of other characters. Apostrophes, hyphens and underscores do not end
# a word; accents and the joiners of emoji stay with the character before them. \x1c-\x1f are white
# space for str.split, not for regex.
MARK = r"[\p{P}--['\N{RIGHT SINGLE QUOTATION MARK}\-_]]"
TOKEN = regex.compile(rf"(?V1){MARK}[\p{{M}}\p{{Cf}}]*|[^\s\x1c-\x1f{MARK}]+")
WORD = regex.compile(r"[^\s\x1c-\x1f]+")
VISIBLE_BYTES = {0x20: "␣", 0x0A: "↵", 0x09: "⇥"}


@dataclass(frozen=True, eq=False)
class Reading:
    """The tokens of a text, with the queries and keys that one attention layer computes from
    them."""

    tokens: list[str]  # those that were read
    query: Tensor  # [1, heads, tokens, head_dim]
    key: Tensor  # [1, heads, tokens, head_dim]
    slopes: Tensor  # [heads]
    total: int  # number of tokens in the whole text, which may be more than were read
    note: str  # a sentence on how the content, q . k / sqrt(d), was computed


class AttentionSource(Protocol):
    """Turns a text into queries and keys. Any object with this interface can be the source of an
    app."""

    contents: tuple[str, ...]  # names of the contents it offers, such as layers
    num_heads: int | None  # its number of heads, or None if it can have any number

    def read(self, text: str, content: str, num_heads: int, longest: int) -> Reading:
        """Read at most `longest` tokens. Raises ValueError for unknown content, other heads, or an
        empty text."""


def check_reading(source: AttentionSource, content: str, num_heads: int) -> None:
    """Raise ValueError for content or a number of heads that the source doesn't have."""
    check_choice("content", content, source.contents)
    if source.num_heads is not None and num_heads != source.num_heads:
        raise ValueError(f"num_heads must be {source.num_heads}, as in the model, got {num_heads}")


_WORD_NOTES = {  # how each content of `Words` is computed
    "same "
    "word": f"Content is made up, the same in every head: {SAME_WORD} between equal words at any distance, and a "
    "fixed random number around 0 between different words.",
    "equal": "Content is 0 for every pair, so the weights show the bias alone.",
}


class Words:
    """Words and punctuation marks, with made-up content.

    With "same word", each word has a random vector of its own, which is its query and its key; q .
    k / sqrt(d) is 2 between equal words, random with standard deviation 0.5 otherwise. Case is
    ignored. With "equal", it is always 0.
    """

    contents: tuple[str, ...] = tuple(_WORD_NOTES)
    num_heads: int | None = None

    def read(self, text: str, content: str, num_heads: int, longest: int) -> Reading:
        check_reading(self, content, num_heads)
        if not (tokens := TOKEN.findall(text)):
            raise ValueError(f"text must have at least one word, got {text[:20]!r}")
        vectors = torch.tensor([_vector(token) for token in tokens[:longest]]) * (
            content != "equal"
        )
        vectors = vectors.expand(1, num_heads, *vectors.shape)
        return Reading(
            tokens[:longest],
            vectors,
            vectors,
            alibi_slopes(num_heads),
            len(tokens),
            _WORD_NOTES[content],
        )


@lru_cache(8192)
def _vector(word: str) -> list[float]:
    """A random vector v with v . v / sqrt(head_dim) = 2, seeded by the word, so the same on every
    machine."""
    generator = random.Random(unicodedata.normalize("NFC", word).casefold())
    vector = [generator.gauss(0, 1) for _ in range(HEAD_DIM)]
    scale = math.hypot(*vector) / math.sqrt(SAME_WORD * math.sqrt(HEAD_DIM))
    return [value / scale for value in vector]


class ModelSource:
    """Base class of sources that run a model. A subclass defines `run` and `heads`."""

    name = "the model"

    def __init__(self, model: Any, num_layers: int, num_heads: int | None) -> None:
        self.model, self.num_heads = model, num_heads
        self.contents = tuple(f"layer {layer + 1}" for layer in range(num_layers))

    def run(self, text: str, longest: int) -> tuple[list[str], int, list[Tensor]]:
        """The tokens that are read, how many the text has, and what the attention of each layer
        receives."""
        raise NotImplementedError

    def heads(self, layer: int, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and slopes of a layer, from what its attention receives."""
        raise NotImplementedError

    def layers(self, text: str, longest: int) -> list[Callable[[], Reading]]:
        """Run the model once, and return a function per layer that computes its reading, because
        all need much memory.

        The functions raise ValueError if queries or keys aren't finite.
        """
        tokens, total, inputs = self.run(text, longest)
        return [
            partial(self._reading, tokens, total, layer, hidden)
            for layer, hidden in enumerate(inputs)
        ]

    def read(self, text: str, content: str, num_heads: int, longest: int) -> Reading:
        check_reading(self, content, num_heads)
        return self.layers(text, longest)[self.contents.index(content)]()

    @torch.inference_mode()
    def _reading(self, tokens: list[str], total: int, layer: int, hidden: Tensor) -> Reading:
        query, key, slopes = (part.float().cpu() for part in self.heads(layer, hidden))
        if not bool((query.isfinite() & key.isfinite()).all()):
            raise ValueError(
                "the model's queries and keys must be finite: its training has diverged"
            )
        note = f"Content comes from layer {layer + 1} of {len(self.contents)} of {self.name}."
        return Reading(tokens, query, key, slopes, total, note)


def readings(source: AttentionSource, text: str, num_heads: int, longest: int) -> Iterator[Reading]:
    """The reading of each content of a source, in order. A model runs only once for all its
    layers."""
    if isinstance(source, ModelSource):
        yield from (read() for read in source.layers(text, longest))
    else:
        yield from (source.read(text, content, num_heads, longest) for content in source.contents)


class ByteModel(ModelSource):
    """The bytes of a text, with queries and keys of a layer of a `LanguageModel`. Raises ValueError
    without ALiBi."""

    name = "the model as it is trained, whose tokens are bytes"

    def __init__(self, model: LanguageModel) -> None:
        if (
            not isinstance(position := model.transformer.position, Alibi)
            or not position.uses_key_ball
        ):
            raise ValueError(
                f"the model must have position 'alibi', unchanged, got {model.config.position!r}"
            )
        super().__init__(model, model.config.num_layers, model.config.num_heads)

    def run(self, text: str, longest: int) -> tuple[list[str], int, list[Tensor]]:
        data, inputs = list(text.encode("utf-8", "replace")), []
        if not data:
            raise ValueError("text must have at least one byte, got ''")
        attentions = [block.attention for block in self.model.transformer.blocks]
        with (
            hooked(attentions, lambda _, args, __: inputs.append(args[0])),
            evaluating(self.model) as device,
        ):
            self.model(torch.tensor([data[:longest]], device=device), last=1)
        tokens = [
            VISIBLE_BYTES.get(byte) or (chr(byte) if 0x20 < byte < 0x7F else f"{byte:02x}")
            for byte in data
        ]
        return tokens[:longest], len(data), inputs

    def heads(self, layer: int, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        attention = self.model.transformer.blocks[layer].attention
        query, key, _ = attention.heads(hidden)
        return query, key, attention.position.slopes


class PretrainedModel(ModelSource):
    """The tokens of a text, and the queries and keys of a layer of a BLOOM, MPT or Falcon model of
    transformers.

    For `widgets.AttentionExplorer`, give the name of a model, or a model and a tokenizer that you
    have loaded:

        widgets.AttentionExplorer(source="bigscience/bloom-560m")
        widgets.AttentionExplorer(source=lab.PretrainedModel(model, tokenizer))

    The result equals what the model computes, except that BLOOM in half precision rounds biases and
    logits, and Falcon rounds biases to bfloat16, and adds them twice with eager attention. Raises
    ValueError for another family of models, or one without ALiBi.
    """

    name = "a pretrained model"

    def __init__(self, model: nn.Module, tokenizer: Any) -> None:
        family = family_of(model)
        layers = family.layers(model)
        if any(layer._forward_pre_hooks for layer in layers):
            raise ValueError(
                "the model must be unchanged, without hooks such as those of lab.modify"
            )
        super().__init__(model, len(layers), len(family.slopes(layers[0])))
        self.tokenizer = tokenizer

    @classmethod
    def from_pretrained(cls, name: str) -> "PretrainedModel":
        """Load a model and its tokenizer with transformers, from a folder or from its cache of
        downloaded models.

        Nothing is downloaded. Raises ValueError if transformers or the model is not on this machine
        or fails to load, or the configuration, which is checked first, has another family or no
        ALiBi.
        """
        try:
            transformers: Any = importlib.import_module("transformers")
            family_name(transformers.AutoConfig.from_pretrained(name, local_files_only=True))
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, local_files_only=True)
            return cls(
                transformers.AutoModel.from_pretrained(name, local_files_only=True), tokenizer
            )
        except (
            Exception
        ) as error:  # damaged files raise errors of safetensors, pickle and tokenizers, too
            hint = f"to have it on this machine: pip install transformers; hf download {name}"
            raise ValueError(f"cannot load the model {name!r}: {error}; {hint}") from error

    def run(self, text: str, longest: int) -> tuple[list[str], int, list[Tensor]]:
        ids = token_ids(self.model, self.tokenizer, text)
        read = ids[: min(longest, longest_context(self.model) or longest)]
        raw = getattr(self.tokenizer, "convert_ids_to_tokens", list)(
            read
        )  # a function has no names for them
        tokens = [self._decoded(at) or str(token) for at, token in zip(read, raw, strict=True)]
        device = next(self.model.parameters()).device
        return tokens, len(ids), attention_inputs(self.model, torch.tensor([read], device=device))

    def heads(self, layer: int, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        family = family_of(self.model)
        attention = family.layers(self.model)[layer]
        query, key, _ = family.project(attention, hidden)
        return query, key, family.slopes(attention)

    def _decoded(self, token: int) -> str:
        """Its text with visible spaces; empty if it is part of a character, or the tokenizer cannot
        decode."""
        text = self.tokenizer.decode([token]) if hasattr(self.tokenizer, "decode") else ""
        return "" if "\N{REPLACEMENT CHARACTER}" in text else text.replace(" ", VISIBLE_BYTES[0x20])


def as_source(source: AttentionSource | LanguageModel | str | None) -> AttentionSource:
    """The source that the argument `source` of an app stands for. Raises as `AttentionExplorer`."""
    if source is None:
        return Words()
    if isinstance(source, LanguageModel):
        return ByteModel(source)
    hint = "; for a model of transformers, give lab.PretrainedModel(model, tokenizer)" * hasattr(
        source, "config"
    )
    if isinstance(source, str):
        if " " not in source or os.path.isdir(source):  # pathlib raises for a long text
            return PretrainedModel.from_pretrained(source)
        hint = "; pass a text as text="
    elif hasattr(source, "read"):
        return source
    expected = (
        "a LanguageModel, the name of a pretrained model or a lab.attention_sources.AttentionSource"
    )
    raise TypeError(f"source must be {expected}, got {short(source)}{hint}")


def shuffle_words(text: str, seed: int) -> str:
    """Shuffle all words of a text before the last one; spaces and line breaks stay where they are.

    Words are separated by white space, so punctuation moves with its word. The result differs from
    `text` unless all these words are equal or there is at most one.
    """
    words = WORD.findall(text)[:-1]
    shuffled, generator = list(words), random.Random(seed)
    while shuffled == words and len(set(words)) > 1:
        generator.shuffle(shuffled)
    order = iter(shuffled)
    return WORD.sub(lambda match: next(order, match.group()), text)
