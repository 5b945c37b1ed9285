"""Sources of queries and keys for `AttentionExplorer`, and one that makes them up from words; see `model_sources`."""

import math
import random
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import regex
import torch
from torch import Tensor

from alibi_viz.attention import AttentionTrace
from alibi_viz.models.positions.custom import LawFunction, law_class
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
    """Every step of attention for some queries: an `AttentionTrace` of tensors [1, heads, len(queries), tokens].

    A long text needs only the rows that are shown: all of them, for 4,096 tokens and 8 heads, would take 2 GB.

    Args:
        query, key: of the whole text, [1, heads, tokens, head_dim].
        curve: the bias by distance, [heads, tokens] from `law_curve`; None for no bias.
        queries: positions of the queries.
        causal: whether keys after a query are masked. Without a mask, keys on both sides get the bias of |i - j|.

    >>> q = k = torch.zeros(1, 1, 4, 2)
    >>> trace_queries(q, k, -torch.arange(4.0)[None], range(2, 3), causal=True).weights
    tensor([[[[0.0900, 0.2447, 0.6652, 0.0000]]]])
    """
    length, positions = key.shape[2], torch.tensor(queries)
    content = (query[:, :, positions] / query.shape[-1] ** 0.5) @ key.transpose(-2, -1)
    bias = content.new_zeros(1).expand_as(content)
    if curve is not None:  # the bias of a query is a slice of one row of distances length - 1, ..., 0, ..., length - 1
        row = torch.cat((curve.flip(1), curve[:, 1:]), dim=1).to(content.dtype)
        bias = row.unfold(1, length, 1)[None, :, length - 1 - positions]
    logits = content + bias
    if causal:
        after = torch.arange(length) > positions[:, None]  # [query, key]
        logits.masked_fill_(after, float("-inf"))
    return AttentionTrace(content, bias, logits, logits.softmax(-1))


_WORD = regex.compile(r"[^\s\x1c-\x1f]+")  # the words of str.split: \x1c-\x1f are not white space for regex


class ShuffleChanges(NamedTuple):
    """The largest absolute changes that a shuffle causes in one head, once every token is followed to its new place."""

    content: float  # of the last query's content, q . k / sqrt(d)
    weight: float  # of the last query's weights
    any_weight: float  # of the weights of all queries compared


def shuffle_words(text: str, seed: int) -> str:
    """Shuffle all words of a text before the last one; spaces and line breaks stay where they are.

    Words are separated by white space, so punctuation moves with its word. The result differs from `text` unless all
    these words are equal or there is at most one.

    >>> from alibi_viz.lab.attention_sources import shuffle_words
    >>> shuffle_words("the cat sat on the mat", seed=1)
    'sat on the the cat mat'
    """
    *words, _ = [match.group() for match in _WORD.finditer(text)] or [""]
    shuffled, generator = list(words), random.Random(seed)
    while shuffled == words and len(set(words)) > 1:
        generator.shuffle(shuffled)
    order = iter(shuffled)
    return _WORD.sub(lambda match: next(order, match.group()), text)


def match_tokens(tokens: Sequence[str], others: Sequence[str]) -> list[int] | None:
    """For each token the position of an equal one among `others`; None if one is not a permutation of the other.

    The first "cat" is matched with the first "cat", the second with the second.

    >>> from alibi_viz.lab.attention_sources import match_tokens
    >>> match_tokens(["cat", "the", "cat"], ["the", "cat", "cat"])
    [1, 0, 2]
    """
    if sorted(tokens) != sorted(others):
        return None
    # Stable sorts of two permutations list equal tokens in the same order.
    places = dict(zip(_sorted_places(tokens), _sorted_places(others), strict=True))
    return [places[place] for place in range(len(tokens))]


def _sorted_places(tokens: Sequence[str]) -> list[int]:
    return sorted(range(len(tokens)), key=tokens.__getitem__)


def compare_orders(
    shuffled: Reading, original: Reading, curve: Tensor | None, head: int, queries: Sequence[int], *, causal: bool
) -> ShuffleChanges | None:
    """Compare the weights of a shuffled text with those of the original order; None if their tokens differ.

    Args:
        shuffled, original: the two readings.
        curve: the bias by distance, [heads, tokens] from `law_curve`; None for no bias.
        head: counted from 0.
        queries: positions in the shuffled text to compare, in addition to the last one.
        causal: whether keys after a query are masked.
    """
    source = match_tokens(shuffled.tokens, original.tokens)
    if source is None:
        return None
    positions, bias = [*queries, len(source) - 1], None if curve is None else curve[head : head + 1]
    here, there = (
        trace_queries(reading.query[:, [head]], reading.key[:, [head]], bias, places, causal=causal)
        for reading, places in ((shuffled, positions), (original, [source[at] for at in positions]))
    )
    content, weight = (  # of each query
        (a[0, 0] - b[0, 0][:, source]).abs().amax(-1)
        for a, b in ((here.content, there.content), (here.weights, there.weights))
    )
    return ShuffleChanges(content[-1].item(), weight[-1].item(), weight.max().item())
