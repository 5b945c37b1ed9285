"""Sources of queries and keys for `AttentionExplorer`, and one that makes them up from words; see `model_sources`."""

import math
import random
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import regex
import torch
from torch import Tensor

from alibi_viz.slopes import alibi_slopes

HEAD_DIM = 16
SAME_WORD = 2  # q . k / sqrt(d) of a word with itself; a head with slope 1/8 subtracts the same over 16 tokens
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
    """Words and punctuation marks, with made-up content.

    With "same word", each word has a fixed random vector, used as its query and its key, and q . k / sqrt(d) is 2
    between equal words at any distance, and random with standard deviation 0.5 for other pairs. Case is ignored. With
    "equal", it is 0 for every pair, so that the weights show the bias alone. With "random", queries and keys are
    standard normal numbers, different in each head, whatever the words.

    >>> from alibi_viz.lab.attention_sources import Words
    >>> reading = Words().read("The cat saw the cat", "same word", num_heads=8, longest=48)
    >>> (attention_trace(reading.query, reading.key, None).content[0, 0, 4] - 2).abs() < 1e-5  # the last "cat"
    tensor([False,  True, False, False,  True])
    """

    contents: tuple[str, ...] = ("same word", "equal", "random")
    num_heads: int | None = None

    def read(self, text: str, content: str, num_heads: int, longest: int) -> Reading:
        check_reading(self, content, num_heads)
        tokens = words(text)
        if not tokens:
            raise ValueError(f"text must have at least one word, got {text[:20]!r}")
        total, tokens = len(tokens), tokens[:longest]
        note = (
            f"Content is made up, the same in every head: {SAME_WORD} between equal words at any distance, and a "
            "fixed random number around 0 between different words."
        )
        if content == "random":
            note = "Content is random: queries and keys are standard normal numbers, whatever the words."
            shape = len(tokens), 2, 1, num_heads, HEAD_DIM  # the first tokens get the same in any text
            query, key = torch.randn(shape, generator=torch.Generator().manual_seed(0)).permute(1, 2, 3, 0, 4)
        else:
            vectors = torch.tensor([_vector(token) for token in tokens])
            if content == "equal":
                vectors, note = 0 * vectors, "Content is 0 for every pair, so the weights show the bias alone."
            query = key = vectors.expand(1, num_heads, *vectors.shape)
        return Reading(tokens, query, key, alibi_slopes(num_heads), total, note)


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


def check_reading(source: AttentionSource, content: str, num_heads: int) -> None:
    """Raise ValueError for content or a number of heads that the source doesn't have."""
    if content not in source.contents:
        raise ValueError(f"content must be one of {', '.join(source.contents)}, got {content!r}")
    if source.num_heads is not None and num_heads != source.num_heads:
        raise ValueError(f"num_heads must be {source.num_heads}, as in the model, got {num_heads}")
