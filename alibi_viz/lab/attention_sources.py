"""Where queries and keys come from: a text, read as attention sees it.

`Words` needs no training: it makes content up, by a rule that one can follow with the eye. `ByteModel` reads the text
with a model that you have trained. Anything else with the same two attributes and `read` serves as well.
"""

import math
import random
import unicodedata
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from alibi_viz.models import LanguageModel
from alibi_viz.models.positions import Alibi
from alibi_viz.slopes import alibi_slopes

__all__ = ["ByteModel", "Reading", "Source", "Words", "words"]

_HEAD_DIM = 16
_SAME = 2  # the content of a word with itself: as much as the bias takes away over 16 tokens at slope 1/8
_INSIDE = "'\N{RIGHT SINGLE QUOTATION MARK}-_"  # marks that belong to the word around them
_BYTES = {0x20: "␣", 0x0A: "↵", 0x09: "⇥"}


@dataclass(frozen=True)
class Reading:
    """A text in one layer.

    Attributes:
        tokens: the tokens that were read, as text.
        query, key: [1, heads, tokens, head_dim].
        slopes: [heads].
        total: how many tokens the text has; more than were read, if it was too long.
        note: how the content was made, in words.
    """

    tokens: list[str]
    query: Tensor
    key: Tensor
    slopes: Tensor
    total: int
    note: str


class Source(Protocol):
    """What turns a text into queries and keys.

    Attributes:
        contents: the names of the queries and keys that can be asked for, such as layers.
        num_heads: how many heads there are, or None where any number can be had.
    """

    contents: tuple[str, ...]
    num_heads: int | None

    def read(self, text: str, content: str, num_heads: int, longest: int) -> Reading:
        """Read at most `longest` tokens. Raises ValueError for an unknown content, a head count that cannot be had,
        or a text without a token."""


class Words:
    """Words and punctuation marks, with content made up from the words alone and the same in every head.

    - "same word": a word has one random vector, always the same, as its query and as its key. So q . k / sqrt(d) is 2
      between equal words, however far apart, and for other pairs a random number around 0 with deviation 0.5. Upper
      and lower case make no difference.
    - "equal": 0 for every pair; what is seen is the bias alone.

    >>> from alibi_viz.lab.attention_sources import Words
    >>> reading = Words().read("The cat saw the cat", "same word", num_heads=8, longest=48)
    >>> (attention_trace(reading.query, reading.key, None).content[0, 0, 4] - 2).abs() < 1e-5  # the last "cat"
    tensor([False,  True, False, False,  True])
    """

    contents: tuple[str, ...] = ("same word", "equal")
    num_heads: int | None = None

    def read(self, text: str, content: str, num_heads: int, longest: int) -> Reading:
        _check(self, content, num_heads)
        found = words(text)
        if not found:
            raise ValueError(f"text must have at least one word, got {text[:20]!r}")
        tokens = found[:longest]
        if content == "equal":
            vectors = torch.zeros(len(tokens), _HEAD_DIM)
            note = "Content is 0 for every pair, so what is seen is the bias alone."
        else:
            vectors = torch.tensor([_vector(token) for token in tokens])
            note = (
                f"Content is made up here, the same in every head: {_SAME} between equal words, however far apart, "
                "and a fixed random number around 0 between different ones."
            )
        heads = vectors.expand(1, num_heads, *vectors.shape)
        return Reading(tokens, heads, heads, alibi_slopes(num_heads), len(found), note)


class ByteModel:
    """A `LanguageModel` with ALiBi: the bytes of a text, and the queries and keys of one of its layers.

    Raises ValueError for a model with another position method: its biases are not ALiBi's, or are none.

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
        self.model = model
        self._blocks: list[Any] = list(model.transformer.blocks)  # Any, for torch cannot tell the type of a submodule
        self.contents: tuple[str, ...] = tuple(f"layer {layer + 1}" for layer in range(model.config.num_layers))
        self.num_heads: int | None = model.config.num_heads

    def read(self, text: str, content: str, num_heads: int, longest: int) -> Reading:
        _check(self, content, num_heads)
        data = text.encode("utf-8", "replace")
        if not data:
            raise ValueError("text must have at least one byte, got ''")
        layer = self.contents.index(content)
        query, key = self._heads(torch.tensor([list(data[:longest])]), layer)
        if not bool((query.isfinite() & key.isfinite()).all()):
            raise ValueError("the model's queries and keys must be finite: its training has diverged")
        slopes = self._blocks[layer].attention.position.slopes.detach().float().cpu()
        note = (
            f"Content is the model's own, in layer {layer + 1} of {len(self.contents)}; its tokens are bytes. The "
            "switches act on this layer only: the layers below it run as they were trained."
        )
        return Reading([_byte(value) for value in data[:longest]], query, key, slopes, len(data), note)

    @torch.no_grad()
    def _heads(self, tokens: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """Queries and keys of a layer, each [1, heads, tokens, head_dim], without dropout."""
        training = self.model.training
        self.model.eval()
        try:
            x = self.model.embedding(
                tokens.to(self.model.head.weight.device)
            )  # ALiBi adds nothing to the token vectors
            for block in self._blocks[:layer]:
                x = block(x)
            block = self._blocks[layer]
            query, key, _ = block.attention.heads(block.norm_attention(x))
        finally:
            self.model.train(training)
        return query.float().cpu(), key.float().cpu()


def words(text: str) -> list[str]:
    """Words and punctuation marks: text between white space, with every punctuation mark a token of its own.

    Apostrophes, hyphens and underscores stay in their word; accents and what joins emoji stay with their character.

    >>> from alibi_viz.lab.attention_sources import words
    >>> words("Don't panic, well-known cat: <b>!!")
    ["Don't", 'panic', ',', 'well-known', 'cat', ':', '<b>', '!', '!']
    """
    found: list[str] = []
    for chunk in text.split():
        after_mark = True  # a chunk starts a new token
        for at, character in enumerate(chunk):
            category = unicodedata.category(character)
            if at and (category[0] == "M" or category == "Cf"):
                found[-1] += character
                continue
            mark = category[0] == "P" and character not in _INSIDE
            if mark or after_mark:
                found.append(character)
            else:
                found[-1] += character
            after_mark = mark
    return found


def _vector(word: str) -> list[float]:
    """A word's random vector v, with v . v / sqrt(head_dim) = 2; seeded by the word, so the same on every machine."""
    source = random.Random(unicodedata.normalize("NFC", word).casefold())
    vector = [source.gauss(0, 1) for _ in range(_HEAD_DIM)]
    size = math.hypot(*vector) / math.sqrt(_SAME * math.sqrt(_HEAD_DIM))
    return [value / size for value in vector]


def _byte(value: int) -> str:
    """A byte as its ASCII character, or as a number in base 16."""
    return _BYTES.get(value) or (chr(value) if 0x20 < value < 0x7F else f"{value:02x}")


def _check(source: Source, content: str, num_heads: int) -> None:
    if content not in source.contents:
        raise ValueError(f"content must be one of {', '.join(source.contents)}, got {content!r}")
    if source.num_heads is not None and num_heads != source.num_heads:
        raise ValueError(f"num_heads must be {source.num_heads}, as in the model, got {num_heads}")
