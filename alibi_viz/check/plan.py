"""The plan of a check: which calls are made of the function under test.

Implementations switch on many things: whether a batch has one sequence, whether one query meets a
long cache, how the memory is laid out. Each of them is a condition with a few values. Trying all
combinations would take hundreds of calls. But a branch rarely depends on more than two conditions,
so a plan has just enough calls for every two values to meet in one of them ("pairwise testing",
Cohen et al. 1997). To try a further condition, add a line to `attention_plan`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, cycle, islice
from typing import Any, NamedTuple

from alibi_viz.check.words import count

SHORT = 16  # keys of a small call
ODD = 17  # keys of another small call
FEW = 5  # queries that meet more keys
BLOCK = 128  # keys: kernels work in blocks of up to so many
BLOCK_AND_A_BIT = BLOCK + 2  # queries
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
_VARIED_HEADS = 2  # numbers of heads that meet all other conditions


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
        words = [str(self.probe)]
        words += [describe(self) for describe in UNUSUAL if describe(self)]
        return ", ".join(words)

    @property
    def is_short(self) -> bool:
        return self.probe.key_length <= ODD

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
        if not self.is_short:
            padded[0] = self._whole_blocks_of_padding
        return tuple(padded)

    @property
    def _whole_blocks_of_padding(self) -> int:
        """Tokens of padding that fill blocks, but leave a query."""
        half = self.probe.key_length // 2
        if self.padding == "left":
            return half
        return min(half, self.probe.query_length - 1)


def _batch(call: Call) -> str:
    return "a batch of one" if call.batch == 1 else ""


def _memory(call: Call) -> str:
    return "" if call.memory == CONTIGUOUS else MEMORY_WORDS[call.memory]


def _padding(call: Call) -> str:
    return PADDING_WORDS.get(call.padding, "")


def _history(call: Call) -> str:
    return "after longer calls" if call.after_longer else ""


def _content(call: Call) -> str:
    return "large content" if call.large else ""


# What a call says beside its sizes
UNUSUAL = (_batch, _memory, _padding, _history, _content)


def bias_plan(num_heads: Sequence[int], decoding: bool, length: int) -> list[Call]:
    """The calls of a check of a bias function."""
    conditions = {"sizes": usual_sizes(decoding, length), "heads": num_heads[:_VARIED_HEADS]}
    calls = []
    for choice in pairwise(conditions):
        queries, keys = choice["sizes"]
        calls.append(Call(Probe(choice["heads"], queries, keys)))
    return _in_order(calls) + _further_heads(num_heads, NO_HEAD_DIM)


def attention_plan(
    num_heads: Sequence[int],
    decoding: bool,
    length: int,
    head_dims: Sequence[int],
    padding: Sequence[str] = (),
    *,
    batches: Sequence[int] = (3, 1),
    views: bool = True,
) -> list[Call]:
    """The calls of a check of an attention function.

    `padding` has the sides that are padded. With `views`, inputs are not always contiguous.
    """
    conditions = {
        "sizes": usual_sizes(decoding, length),
        "heads": num_heads[:_VARIED_HEADS],
        "head_dim": head_dims,
        "batch": batches,
        "memory": (CONTIGUOUS, TRANSPOSED) if views else (CONTIGUOUS,),
        "padding": (NO_PADDING, *padding),
    }
    calls = []
    for choice in pairwise(conditions, _query_is_padding):
        queries, keys = choice["sizes"]
        call = Call(
            probe=Probe(choice["heads"], queries, keys),
            head_dim=choice["head_dim"],
            batch=choice["batch"],
            memory=choice["memory"],
            padding=choice["padding"],
        )
        calls.append(call)
    calls = _in_order(calls)
    calls += _whole_blocks(num_heads[0], head_dims[0], length)
    if views:
        calls += _further_views(calls[0])
    calls += _further_heads(num_heads, head_dims[0])
    return list(dict.fromkeys(calls))


def calls_that_tell_apart(wrong: Sequence[Call], calls: Sequence[Call]) -> list[Call]:
    """Further calls that tell which condition of the wrong ones makes them wrong.

    In a plan of pairs, two conditions may always come together. So these replace each condition of
    a wrong call, but for its sizes, by another one: by that of the first call, if that is another.
    """
    right = set(calls) - set(wrong)
    if not wrong or not right:
        return []
    shortest = min(wrong, key=lambda call: call.probe.key_length)
    heads = _another(shortest.probe.num_heads, [call.probe.num_heads for call in calls])
    variants = [
        replace(shortest, probe=shortest.probe._replace(num_heads=heads)),
        replace(shortest, head_dim=_another(shortest.head_dim, [call.head_dim for call in calls])),
        replace(shortest, batch=_another(shortest.batch, [call.batch for call in calls])),
        replace(shortest, memory=_another(shortest.memory, [call.memory for call in calls])),
        replace(shortest, padding=calls[0].padding),
    ]
    is_made = {replace(call, after_longer=False) for call in calls}
    further = []
    for variant in dict.fromkeys(variants):
        if replace(variant, after_longer=False) not in is_made:
            further.append(replace(variant, after_longer=True))
    return further


def _another(value: Any, values: Sequence[Any]) -> Any:
    """The first of some values that is another one; the same if there is none."""
    return next((other for other in values if other != value), value)


def _in_order(calls: Sequence[Call]) -> list[Call]:
    """The calls with the same number of heads together, and some of them again after longer ones.

    So a function that remembers the bias of the longest call is seen to cut it.
    """
    ordered = []
    for heads in dict.fromkeys(call.probe.num_heads for call in calls):
        of_heads = [call for call in calls if call.probe.num_heads == heads]
        ordered += of_heads
        if all(call.is_short for call in of_heads):
            continue
        for queries in (SHORT, FEW, 1):
            sizes = Probe(heads, queries, SHORT)
            again = next((call for call in of_heads if call.probe == sizes), None)
            if again is not None:
                ordered.append(replace(again, after_longer=True))
    return ordered


def _whole_blocks(num_heads: int, head_dim: int, length: int) -> list[Call]:
    """A call that has no part of a block, if that many keys should be tried."""
    if length <= BLOCK:
        return []
    return [Call(Probe(num_heads, BLOCK, BLOCK), head_dim)]


def _further_views(plain: Call) -> list[Call]:
    """The plain call with its inputs in other memory, one a kind.

    Pairs don't need the first of them, but models make it: several sequences, all queries, and
    heads that were split off the last axis.
    """
    return [replace(plain, memory=memory) for memory in (TRANSPOSED, PACKED, CACHED, STRIDED)]


def _further_heads(num_heads: Sequence[int], head_dim: int) -> list[Call]:
    """A small call for each further number of heads."""
    return [Call(Probe(heads, SHORT, SHORT), head_dim) for heads in num_heads[_VARIED_HEADS:]]


def _query_is_padding(name: str, value: Any, other_name: str, other: Any) -> bool:
    """Whether these two conditions leave no query that is not padding."""
    if (name, other_name) != ("sizes", "padding"):
        return False
    queries, _ = value
    return other == "right" and queries <= PADDED_TOKENS[0]


def usual_sizes(decoding: bool, length: int) -> list[tuple[int, int]]:
    """How many queries meet how many keys: one, a few, a block and a bit, or all."""
    key_lengths = [SHORT]
    if length >= ODD:
        key_lengths += [ODD, length]
    sizes = []
    for keys in dict.fromkeys(key_lengths):
        is_large = decoding and keys > MAX_SQUARE
        if not is_large:
            sizes.append((keys, keys))
        if decoding:
            sizes += [(queries, keys) for queries in (1, FEW, BLOCK_AND_A_BIT) if queries < keys]
    return sizes


Forbids = Callable[[str, Any, str, Any], bool]


def _forbids_nothing(name: str, value: Any, other_name: str, other: Any) -> bool:
    return False


def pairwise(
    conditions: Mapping[str, Sequence[Any]], forbids: Forbids = _forbids_nothing
) -> list[dict[str, Any]]:
    """Few choices of a value per condition in which every two values meet.

    The first choice has the first value of each condition. `forbids` tells whether two values, of
    conditions in their order, can't be chosen together.

    >>> from alibi_viz.check.plan import pairwise
    >>> for choice in pairwise({"batch": [3, 1], "queries": [16, 1], "heads": [8, 12]}):
    ...     print(choice)
    {'batch': 3, 'queries': 16, 'heads': 8}
    {'batch': 3, 'queries': 1, 'heads': 12}
    {'batch': 1, 'queries': 16, 'heads': 12}
    {'batch': 1, 'queries': 1, 'heads': 8}
    """
    options = tuple((name, tuple(values)) for name, values in conditions.items())
    return [dict(choice) for choice in _pairwise(options, forbids)]


Setting = tuple[str, Any]  # a condition and one of its values
Options = tuple[tuple[str, tuple[Any, ...]], ...]


@lru_cache(maxsize=32)
def _pairwise(options: Options, forbids: Forbids) -> list[tuple[Setting, ...]]:
    # A dict, because the order of a set changes from run to run
    unmet = dict.fromkeys(_pairs(options, forbids))
    choices = []
    while unmet:
        choice = _next_choice(options, unmet, forbids)
        for pair in combinations(choice, 2):
            unmet.pop(pair, None)
        choices.append(choice)
    return choices


def _pairs(options: Options, forbids: Forbids) -> Iterator[tuple[Setting, Setting]]:
    """Every two values of different conditions that may meet."""
    for (name, values), (other_name, others) in combinations(options, 2):
        for value in values:
            for other in others:
                if not forbids(name, value, other_name, other):
                    yield (name, value), (other_name, other)


def _next_choice(
    options: Options, unmet: Mapping[tuple[Setting, Setting], Any], forbids: Forbids
) -> tuple[Setting, ...]:
    """A value for each condition: two that haven't met, and others that meet many new ones."""
    chosen = dict(next(iter(unmet)))
    for name, values in options:
        if name in chosen:
            continue
        best_value = None
        most_new = -1
        for value in values:
            trial = _in_condition_order(options, {**chosen, name: value})
            pairs = list(combinations(trial, 2))
            if any(forbids(*setting, *other) for setting, other in pairs):
                continue
            new = sum(pair in unmet for pair in pairs)
            if new > most_new:  # the first of equal ones
                best_value = value
                most_new = new
        chosen[name] = best_value
    return _in_condition_order(options, chosen)


def _in_condition_order(options: Options, chosen: Mapping[str, Any]) -> tuple[Setting, ...]:
    """The chosen settings in the order of the conditions."""
    return tuple((name, chosen[name]) for name, _ in options if name in chosen)
