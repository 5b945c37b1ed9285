"""The calls that a check makes of the function under test: a sweep of small ones.

Libraries switch on many things: whole blocks or pages of keys, a few new tokens after a cache, one
sequence or several, how memory is laid out, what a cache holds from the call before. So the sweep
has a call for each of many sizes, and everything else changes from call to call.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import NamedTuple

from alibi_viz.check.words import count

SHORT = 16  # keys of a small call
_FEW = 5  # queries that meet more keys
_BLOCK_AND_A_BIT = 130  # queries; kernels work in blocks of up to 128 keys
MAX_SQUARE = 512  # keys of the largest call that has as many queries
# Tokens of padding of the sequences of a batch: some, more, and none
PADDED_TOKENS = (3, 7, 0)
NO_PADDING = "none"
NO_HEAD_DIM = 0
PADDING_WORDS = {"left": "padding in front", "right": "padding behind"}
# How the inputs of a call lie in memory
CONTIGUOUS = "contiguous"
TRANSPOSED = "transposed"  # heads and positions are swapped: views of [batch, length, heads, ...]
PACKED = "packed"  # query, key and value are slices of one array, as after a joint projection
CACHED = "cached"  # keys and values are the first ones of larger arrays, as in a cache
STRIDED = "strided"  # the last axis is not dense, as in a view of [batch, heads, head_dim, length]
NOT_CONTIGUOUS = "inputs that are not contiguous"
MEMORY_WORDS = {
    CONTIGUOUS: "contiguous inputs",
    TRANSPOSED: "transposed inputs",
    PACKED: "slices of one array",
    CACHED: "slices of a cache",
    STRIDED: "inputs whose last axis is not dense",
}
# Keys of calls that have as many queries: few, and about the sizes of blocks
_ALL = (1, 2, 3, 4, 5, 7, 8, 9, 15, 17, 24, 31, 32, 33, 40, 48, 63, 64, 65, 80, 96, 100, 127)
_ALL_OF_MANY = (128, 129, 192, 256, 300)
# Keys that one new query meets
_ONE_QUERY = (2, 3, 5, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129)
_ONE_QUERY_OF_MANY = (192, 255, 256, 257, 300)
# (queries, keys): drafts of a few tokens, and chunks of a prompt after a cache
_DRAFTS = ((2, 16), (3, 17), (4, 32), (5, 33), (5, 40), (6, 64), (7, 65), (8, 24), (8, 128))
_CHUNKS = ((16, 32), (16, 48), (17, 50), (32, 64), (32, 96), (33, 65), (48, 100), (64, 96))
_LONG_CHUNKS = ((64, 128), (63, 127), (100, 130), (128, 256), (130, 300))
# (queries, keys) of calls with padding
_PADDED = ((33, 33), (64, 64), (128, 128), (8, 24), (2, 33), (20, 100), (1, 64), (1, 128))
_LARGE_CONTENT = ((16, 16), (1, 33), (40, 40))
_REPEATED = 8  # calls that are made again at the end

# Numbers of heads and a size of a head that are tried if the function takes them
FURTHER_HEADS = (1, 3, 5, 16, 40)
FURTHER_HEAD_DIM = 16
# Cycles whose lengths have no common factor: every two values of two conditions meet.
BATCHES = (3, 1, 8, 2)
_HEADS_IN_A_CYCLE = 7
_HEAD_DIMS_IN_A_CYCLE = 3
_MEMORY = (CONTIGUOUS, TRANSPOSED, PACKED, CACHED, STRIDED)
_MOST_NUMBERS = 2**19  # of a call: weights, or its keys, so that a sweep takes half a second


class Probe(NamedTuple):
    """The sizes of one call. The queries are the last positions of the keys."""

    num_heads: int
    query_length: int
    key_length: int

    def __str__(self) -> str:
        return ", ".join(map(count, self, ("head", "query", "key")))


@dataclass(frozen=True)
class Call:
    """The conditions of one call of the function under test.

    Attributes:
        probe: its sizes.
        head_dim: the size of a head; `NO_HEAD_DIM` for a bias function.
        batch: how many sequences.
        memory: how its inputs lie in memory, a key of `MEMORY_WORDS`.
        padding: "none"; or "left" or "right", the side on which sequences are padded.
        after_longer: whether it is made once more after longer calls, which a function may have
            remembered.
        large: whether its random content is so large that logits are far beyond 20.
    """

    probe: Probe
    head_dim: int = NO_HEAD_DIM
    batch: int = 3
    memory: str = CONTIGUOUS
    padding: str = NO_PADDING
    after_longer: bool = False
    large: bool = False

    def __str__(self) -> str:
        unusual = [
            "a batch of one" if self.batch == 1 else "",
            MEMORY_WORDS[self.memory] if self.is_view else "",
            PADDING_WORDS.get(self.padding, ""),
            "after longer calls" if self.after_longer else "",
            "large content" if self.large else "",
        ]
        return ", ".join([str(self.probe), *filter(None, unusual)])

    @property
    def is_view(self) -> bool:
        return self.memory != CONTIGUOUS

    @property
    def has_cache(self) -> bool:
        """Whether there are fewer queries than keys."""
        return self.probe.query_length < self.probe.key_length

    @property
    def is_padded(self) -> bool:
        return self.padding != NO_PADDING

    @property
    def is_trivial(self) -> bool:
        """Whether there is one key, whose weight is always 1."""
        return self.probe.key_length == 1

    @property
    def is_plain(self) -> bool:
        """Whether nothing but its sizes is special."""
        return replace(self, batch=1) == Call(self.probe, self.head_dim, batch=1)

    @property
    def padded_tokens(self) -> tuple[int, ...]:
        """Tokens of padding of each sequence of the batch."""
        if self.padding == NO_PADDING:
            return (0,) * self.batch
        padded = list(islice(cycle(PADDED_TOKENS), self.batch))
        if self.probe.key_length > SHORT + 1:
            padded[0] = self._whole_blocks_of_padding
        return tuple(padded)

    @property
    def _whole_blocks_of_padding(self) -> int:
        """Tokens of padding that fill blocks, but leave a query."""
        half = self.probe.key_length // 2
        if self.padding == "left":
            return half
        return min(half, self.probe.query_length - 1)


def _sizes(decoding: bool, length: int) -> list[tuple[int, int]]:
    """How many queries meet how many keys in the calls of a sweep, in a fixed mixed order."""
    chosen = _usual_sizes(decoding, length)
    chosen += [(keys, keys) for keys in (*_ALL, *_ALL_OF_MANY)]
    if decoding:
        chosen += [(1, keys) for keys in (*_ONE_QUERY, *_ONE_QUERY_OF_MANY)]
        chosen += [*_DRAFTS, *_CHUNKS, *_LONG_CHUNKS]
    possible = [size for size in dict.fromkeys(chosen) if size[1] <= max(length, SHORT)]
    first, *others = possible
    random.Random(0).shuffle(others)
    return [first, *others]


def attention_calls(
    num_heads: Sequence[int],
    head_dims: Sequence[int],
    *,
    decoding: bool,
    length: int,
    sides: Sequence[str] = (),
    batches: Sequence[int] = BATCHES,
    memory: Sequence[str] = _MEMORY,
) -> list[Call]:
    """The calls of a sweep of attention, in the order in which they are made.

    The order is fixed, because a function may remember what it was called with before.
    """
    heads_in_turn = list(islice(cycle(num_heads), _HEADS_IN_A_CYCLE))
    head_dims_in_turn = list(islice(cycle(head_dims), _HEAD_DIMS_IN_A_CYCLE))

    usual = _usual_sizes(decoding, length)

    def call(n: int, queries: int, keys: int) -> Call:
        # The same number of heads twice, so that a cache is used for another size
        heads = heads_in_turn[n // 2 % len(heads_in_turn)]
        if (queries, keys) in usual:
            heads = num_heads[0]  # a report shows these
        batch = batches[n % len(batches)]
        size = keys * max(queries, *head_dims)
        if batch * heads * size > _MOST_NUMBERS:
            batch = 1
        if heads * size > _MOST_NUMBERS:
            heads = num_heads[0]
        return Call(
            probe=Probe(heads, queries, keys),
            head_dim=head_dims_in_turn[n % len(head_dims_in_turn)],
            batch=batch,
            memory=memory[n % len(memory)],
        )

    calls = []
    for n, (queries, keys) in enumerate(_sizes(decoding, length)):
        calls.append(call(n, queries, keys))
    # As models call: several sequences, all queries, and heads that were split off the last axis
    calls += [replace(calls[0], memory=kind) for kind in memory]
    for n, (queries, keys) in enumerate(_LARGE_CONTENT):
        if keys <= length and (decoding or queries == keys):
            calls.append(replace(call(n, queries, keys), large=True))
    for side in sides:
        for n, (queries, keys) in enumerate([*_usual_sizes(decoding, length), *_PADDED]):
            has_a_real_query = side == "left" or queries > PADDED_TOKENS[0]
            if has_a_real_query and keys <= max(length, SHORT) and (decoding or queries == keys):
                padded = replace(call(n, queries, keys), padding=side)
                calls.append(padded)
                if padded.probe.key_length <= SHORT + 1:
                    calls += [replace(padded, batch=batch) for batch in batches[:2]]
    for heads in num_heads[_HEADS_IN_A_CYCLE:]:
        calls.append(Call(Probe(heads, SHORT, SHORT), head_dims[0], batches[0]))
    repeated = calls[_REPEATED - 1 :: -1]
    calls += [replace(made, after_longer=True) for made in repeated]
    return list(dict.fromkeys(calls))


def bias_calls(num_heads: Sequence[int], *, decoding: bool, length: int) -> list[Call]:
    """The calls of a sweep of a bias function."""
    heads_in_turn = list(islice(cycle(num_heads), _HEADS_IN_A_CYCLE))
    usual = _usual_sizes(decoding, length)
    calls = []
    for n, (queries, keys) in enumerate(_sizes(decoding, length)):
        heads = heads_in_turn[n // 2 % len(heads_in_turn)]
        if (queries, keys) in usual:
            heads = num_heads[0]  # a report shows these
        calls.append(Call(Probe(heads, queries, keys)))
    calls += [Call(Probe(heads, SHORT, SHORT)) for heads in num_heads[_HEADS_IN_A_CYCLE:]]
    repeated = calls[_REPEATED - 1 :: -1]
    return calls + [replace(made, after_longer=True) for made in repeated]


def _usual_sizes(decoding: bool, length: int) -> list[tuple[int, int]]:
    """How many queries meet how many keys: one, a few, a block and a bit, or all."""
    key_lengths = [SHORT]
    if length > SHORT:
        key_lengths += [SHORT + 1, length]
    sizes = []
    for keys in dict.fromkeys(key_lengths):
        is_large = decoding and keys > MAX_SQUARE
        if not is_large:
            sizes.append((keys, keys))
        if decoding:
            sizes += [(queries, keys) for queries in (1, _FEW, _BLOCK_AND_A_BIT) if queries < keys]
    return sizes
