"""Sources of queries and keys: made up from words, or computed by a model from a text.

`AttentionExplorer` and `window_table` read them.
"""

import importlib
import math
import os
import random
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from reprlib import repr as short
from typing import Any, NamedTuple

import regex
import torch
from torch import Tensor, nn

from alibi_viz.arguments import check_choice, check_instance
from alibi_viz.data.text import to_utf8
from alibi_viz.measure.losses import evaluating
from alibi_viz.models import LanguageModel
from alibi_viz.models.positions.biases import is_plain_alibi
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
SPACED_WORD = regex.compile(r"[^\s\x1c-\x1f]+")
VISIBLE_BYTES = {0x20: "␣", 0x0A: "↵", 0x09: "⇥"}


@dataclass(frozen=True, eq=False)
class Reading:
    """The tokens of a text, with the queries and keys that one attention layer computes."""

    tokens: list[str]  # those that were read
    query: Tensor  # [1, heads, tokens, head_dim]
    key: Tensor  # [1, heads, tokens, head_dim]
    slopes: Tensor  # [heads]
    total: int  # number of tokens in the whole text, which may be more than were read
    note: str  # a sentence on how the content, q . k / sqrt(d), was computed


class LayerInputs(NamedTuple):
    """What the attention of each layer of a model receives from a text."""

    tokens: list[str]  # those that were read
    total: int  # number of tokens in the whole text
    hidden: list[Tensor]  # [1, tokens, width], one for each layer, or content of the source


class AttentionSource:
    """Turns a text into queries and keys. A subclass defines `run` and `heads`.

    A model runs once for all layers, and `reading` computes the queries and keys of one: those of
    all layers together would need much memory.

    Attributes:
        contents: the names of what it offers, such as layers.
        num_heads: its number of heads.
        unit: what it reads, in the plural and in words.
        is_slow: whether reading a text takes longer than typing a letter.
    """

    unit = "tokens"
    is_slow = True

    def __init__(self, notes: Mapping[str, str], num_heads: int) -> None:
        """`notes` has a sentence on each content, {name: how it is computed}."""
        self.contents = tuple(notes)
        self.num_heads = num_heads
        self._notes = notes

    def run(self, text: str, longest: int) -> LayerInputs:
        """Read at most `longest` tokens, for all contents. Raises ValueError for an empty text."""
        raise NotImplementedError

    def heads(self, layer: int, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and slopes of a layer, counted from 0, from what its attention receives."""
        raise NotImplementedError

    @torch.no_grad()
    def reading(self, inputs: LayerInputs, content: str) -> Reading:
        """The reading of one content.

        Raises ValueError for unknown content, and for queries or keys that aren't finite.
        """
        check_choice("content", content, self.contents)
        layer = self.contents.index(content)
        query, key, slopes = self.heads(layer, inputs.hidden[layer])
        if not bool((query.isfinite() & key.isfinite()).all()):
            raise ValueError(
                "the model's queries and keys must be finite: its training has diverged"
            )
        return Reading(
            tokens=inputs.tokens,
            query=query.float().cpu(),
            key=key.float().cpu(),
            slopes=slopes.float().cpu(),
            total=inputs.total,
            note=self._notes[content],
        )

    def read(self, text: str, content: str, longest: int) -> Reading:
        """Read one content of a text. Raises as `run` and `reading`."""
        return self.reading(self.run(text, longest), content)


def notes_on_layers(num_layers: int, model: str) -> dict[str, str]:
    """The notes of a source that offers the layers of a model, which is named in words."""
    return {
        f"layer {layer}": f"Content comes from layer {layer} of {num_layers} of {model}."
        for layer in range(1, num_layers + 1)
    }


class Words(AttentionSource):
    """Words and punctuation marks, with made-up content.

    Each word has a random vector of its own, which is its query and its key. So q . k / sqrt(d) is
    2 between equal words, and random with standard deviation 0.5 between others. Case is ignored.

    >>> from alibi_viz.measure.attention_sources import Words
    >>> reading = Words().read("to be or not to be", "random vectors", longest=4)
    >>> reading.tokens, reading.total
    (['to', 'be', 'or', 'not'], 6)
    """

    unit = "words"
    is_slow = False

    def __init__(self, num_heads: int = 8) -> None:
        note = (
            f"Content is made up, the same in every head: {SAME_WORD} between equal words at any "
            "distance, and a fixed random number around 0 between different words."
        )
        super().__init__({"random vectors": note}, num_heads)

    def run(self, text: str, longest: int) -> LayerInputs:
        tokens = TOKEN.findall(text)
        if not tokens:
            raise ValueError(f"text must have at least one word, got {text[:20]!r}")
        read = tokens[:longest]
        vectors = torch.tensor([[_vector(token) for token in read]], dtype=torch.float32)
        return LayerInputs(read, len(tokens), [vectors])

    def heads(self, layer: int, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        vectors = hidden[:, None].expand(-1, self.num_heads, -1, -1)  # the same in every head
        return vectors, vectors, alibi_slopes(self.num_heads)


@lru_cache(8192)
def _vector(word: str) -> list[float]:
    """A random vector v with v . v / sqrt(head_dim) = 2.

    It is seeded by the word, so it is the same on every machine.
    """
    generator = random.Random(unicodedata.normalize("NFC", word).casefold())
    vector = [generator.gauss(0, 1) for _ in range(HEAD_DIM)]
    scale = math.hypot(*vector) / math.sqrt(SAME_WORD * math.sqrt(HEAD_DIM))
    return [value / scale for value in vector]


class ByteModel(AttentionSource):
    """The bytes of a text, with queries and keys of a layer of a `LanguageModel`.

    Raises ValueError for a model whose position method isn't ALiBi, unchanged, and for an encoder.
    """

    unit = "letters"

    def __init__(self, model: LanguageModel) -> None:
        position = model.transformer.position
        if not is_plain_alibi(position):
            raise ValueError(
                f"the model must have position 'alibi', unchanged, got {model.config.method!r}"
            )
        if not model.config.causal:
            raise ValueError(
                "the model must be a decoder, got an encoder, which sees later keys too"
            )
        notes = notes_on_layers(model.config.num_layers, "the trained model, which reads letters")
        super().__init__(notes, model.config.num_heads)
        self.model: Any = model

    def run(self, text: str, longest: int) -> LayerInputs:
        data = to_utf8(text, "text")
        if not data:
            raise ValueError("text must have at least one byte, got ''")
        read = list(data[:longest])

        hidden: list[Tensor] = []

        def keep_input(_: nn.Module, args: Any, __: Any) -> None:
            hidden.append(args[0])

        attentions = [block.attention for block in self.model.transformer.blocks]
        with hooked(attentions, keep_input), evaluating(self.model) as device:
            self.model(torch.tensor([read], device=device), last=1)
        tokens = [_visible(byte) for byte in read]
        return LayerInputs(tokens, len(data), hidden)

    def heads(self, layer: int, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        attention = self.model.transformer.blocks[layer].attention
        query, key, _ = attention.heads(hidden)
        return query, key, attention.position.slopes


def _visible(byte: int) -> str:
    """A printable ASCII character, a symbol for white space, or two hexadecimal digits."""
    if byte in VISIBLE_BYTES:
        return VISIBLE_BYTES[byte]
    if 0x20 < byte < 0x7F:
        return chr(byte)
    return f"{byte:02x}"


class PretrainedModel(AttentionSource):
    """The tokens of a text, with queries and keys of a layer of a model of transformers.

    The model is BLOOM, MPT or Falcon, with ALiBi. For `widgets.AttentionExplorer`, give the name of
    a model, or a model and a tokenizer that you have loaded:

        widgets.AttentionExplorer(source="bigscience/bloom-560m")
        widgets.AttentionExplorer(source=lab.PretrainedModel(model, tokenizer))

    The result equals what the model computes, except that BLOOM in half precision rounds biases and
    logits, and Falcon rounds biases to bfloat16, and adds them twice with eager attention. Raises
    ValueError for another family of models, or one without ALiBi.
    """

    def __init__(self, model: nn.Module, tokenizer: Any) -> None:
        family = family_of(model)
        layers = family.layers(model)
        if any(layer._forward_pre_hooks for layer in layers):
            raise ValueError(
                "the model must be unchanged, without hooks such as those of lab.modify"
            )
        notes = notes_on_layers(len(layers), "a pretrained model")
        super().__init__(notes, len(family.slopes(layers[0])))
        self.model: Any = model
        self.tokenizer = tokenizer

    @classmethod
    def from_pretrained(cls, name: str) -> "PretrainedModel":
        """Load a model and its tokenizer with transformers.

        They come from a folder or from its cache of downloaded models; nothing is downloaded.
        Raises ValueError if transformers or the model is not on this machine or fails to load, or
        the configuration, which is checked first, has another family or no ALiBi.
        """
        check_instance("name", name, str)
        try:
            transformers: Any = importlib.import_module("transformers")
            family_name(transformers.AutoConfig.from_pretrained(name, local_files_only=True))
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, local_files_only=True)
            model = transformers.AutoModel.from_pretrained(name, local_files_only=True)
            return cls(model, tokenizer)
        # Damaged files raise errors of safetensors, pickle and tokenizers, too.
        except Exception as error:
            hint = f"to have it on this machine: hf download {name}"
            if isinstance(error, ImportError):
                hint = "to read it: pip install transformers"
            raise ValueError(f"cannot load the model {name!r}: {error}; {hint}") from error

    def run(self, text: str, longest: int) -> LayerInputs:
        ids = token_ids(self.model, self.tokenizer, text)
        limit = longest_context(self.model)
        if limit is not None:
            longest = min(longest, limit)
        read = ids[:longest]

        device = next(self.model.parameters()).device
        hidden = attention_inputs(self.model, torch.tensor([read], device=device))
        tokens = [self._token(token_id) for token_id in read]
        return LayerInputs(tokens, len(ids), hidden)

    def heads(self, layer: int, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        family = family_of(self.model)
        attention = family.layers(self.model)[layer]
        query, key, _ = family.project(attention, hidden)
        return query, key, family.slopes(attention)

    def _token(self, token_id: int) -> str:
        """The text of a token with visible spaces.

        Where it has none, as a part of a character, we show the tokenizer's name for it. A
        tokenizer that is a function can neither decode nor name tokens, so we show the number.
        """
        if hasattr(self.tokenizer, "decode"):
            text = self.tokenizer.decode([token_id])
            if text and "\N{REPLACEMENT CHARACTER}" not in text:
                return str(text.replace(" ", VISIBLE_BYTES[0x20]))
        if hasattr(self.tokenizer, "convert_ids_to_tokens"):
            (name,) = self.tokenizer.convert_ids_to_tokens([token_id])
            return str(name)
        return str(token_id)


def as_source(source: AttentionSource | LanguageModel | str) -> AttentionSource:
    """The source that the argument `source` of an app stands for. Raises as `AttentionExplorer`."""
    if isinstance(source, LanguageModel):
        return ByteModel(source)
    hint = ""
    if isinstance(source, str):
        if " " not in source or os.path.isdir(source):  # pathlib raises for a long text
            return PretrainedModel.from_pretrained(source)
        hint = "; pass a text as text="
    elif isinstance(source, AttentionSource):
        return source
    elif hasattr(source, "config"):
        hint = "; for a model of transformers, give lab.PretrainedModel(model, tokenizer)"
    expected = "a LanguageModel, the name of a pretrained model or an AttentionSource"
    raise TypeError(f"source must be {expected}, got {short(source)}{hint}")


def shuffle_words(text: str, seed: int) -> str:
    """Shuffle all words of a text before the last one; spaces and line breaks stay where they are.

    Words are separated by white space, so punctuation moves with its word. The result differs from
    `text` unless all these words are equal or there is at most one.
    """
    words = SPACED_WORD.findall(text)
    shuffled = words[:-1]
    if len(set(shuffled)) > 1:
        generator = random.Random(seed)
        while shuffled == words[:-1]:
            generator.shuffle(shuffled)

    order = iter([*shuffled, *words[-1:]])
    return SPACED_WORD.sub(lambda _: next(order), text)
