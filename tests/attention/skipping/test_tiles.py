"""Tiles cover the part of the attention matrix within the span, each pair once."""

from dataclasses import replace

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from alibi_viz.attention.skipping import tiles as tiles_module
from alibi_viz.attention.skipping.tiles import Tile, tiles
from tests.rows import each_case

LENGTHS = st.tuples(st.integers(0, 700), st.integers(0, 700)).map(sorted)
SPANS = st.one_of(st.integers(0, 100), st.integers(0, 3000))


def rectangles(parts):
    """Each rectangle of the tiles: its queries and keys."""
    for tile in parts:
        assert min(tile.rows, tile.width, tile.count) >= 1, tile
        for index in range(tile.count):
            query = tile.query + index * tile.query_step
            key = tile.key + index * tile.key_step
            assert min(query, key) >= 0, tile
            yield tile, slice(query, query + tile.rows), slice(key, key + tile.width)


def times_covered(parts, query_length, key_length):
    """int [query, key]: how many rectangles contain each pair. All rectangles must lie within the
    matrix."""
    counts = torch.zeros(query_length, key_length, dtype=torch.int32)
    for tile, queries, keys in rectangles(parts):
        assert queries.stop <= query_length and keys.stop <= key_length, tile
        counts[queries, keys] += 1
    return counts


def signed_distance(query_length, key_length):
    """[query, key]: negative for keys after the query."""
    return torch.arange(key_length - query_length, key_length)[:, None] - torch.arange(key_length)


def assert_covers_the_span_once(lengths, span, causal):
    counts = times_covered(tiles(*lengths, span, causal=causal), *lengths)
    distance = signed_distance(*lengths)
    first_distance = 0 if causal else -span
    is_within = (first_distance <= distance) & (distance <= span)
    assert bool((counts[is_within] == 1).all())
    assert bool((counts <= 1).all())
    return counts


@given(lengths=LENGTHS, span=SPANS, causal=st.booleans())
@example(lengths=[700, 700], span=0, causal=True)
@example(lengths=[129, 129], span=10**9, causal=False)
def test_each_pair_within_the_span_is_in_one_tile_and_none_in_two(lengths, span, causal):
    assert_covers_the_span_once(lengths, span, causal)


wide_spans = given(
    lengths=st.sampled_from([(1700, 1700), (1400, 1800), (1990, 2000)]),
    span=st.integers(1025, 1250),
)


@pytest.fixture(scope="module")
def narrow_up_to_1024():
    """Wider spans have bands, which otherwise start at 2,048 keys."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles_module, "_NARROW", 1024)
        yield


in_both_forms = each_case(
    ("causal", "last_side"),
    {
        "causal": (True, "before"),
        "both directions": (False, "after"),
    },
)


@pytest.mark.usefixtures("narrow_up_to_1024")
@in_both_forms
@settings(max_examples=10)
@wide_spans
def test_wide_spans_have_a_band_on_one_side_or_both(lengths, span, causal, last_side):
    assert tiles(*lengths, span, causal=causal)[-1].side == last_side


@pytest.mark.usefixtures("narrow_up_to_1024")
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "both directions"])
@settings(max_examples=10)
@wide_spans
def test_bands_cover_the_span_once_and_not_all_beyond(lengths, span, causal):
    counts = assert_covers_the_span_once(lengths, span, causal)
    is_beyond = signed_distance(*lengths) > span
    assert bool((counts[is_beyond] == 0).any())


# Where the keys of a tile are

any_tiles = given(lengths=LENGTHS, span=SPANS, causal=st.booleans())


@any_tiles
def test_own_tiles_come_first_and_later_keys_last(lengths, span, causal):
    sides = [tile.side for tile in tiles(*lengths, span, causal=causal)]
    assert sides == sorted(sides, key=["own", "before", "after"].index)


@given(lengths=LENGTHS, span=SPANS)
def test_causal_tiles_have_no_side_of_later_keys(lengths, span):
    sides = {tile.side for tile in tiles(*lengths, span)}
    assert sides <= {"own", "before"}


@any_tiles
def test_each_query_is_in_one_own_tile(lengths, span, causal):
    own_tiles = torch.zeros(lengths[0], dtype=torch.int32)
    for tile, queries, _ in rectangles(tiles(*lengths, span, causal=causal)):
        if tile.side == "own":
            own_tiles[queries] += 1
    assert bool((own_tiles == 1).all())


@any_tiles
def test_the_keys_of_a_tile_are_on_its_side(lengths, span, causal):
    distance = signed_distance(*lengths)
    for tile, queries, keys in rectangles(tiles(*lengths, span, causal=causal)):
        of_tile = distance[queries, keys]
        if tile.side == "own":
            has_its_own_key = (of_tile == 0).any(1)
            assert bool(has_its_own_key.all())
        elif tile.side == "before":
            assert bool((of_tile > 0).all())
        else:
            assert bool((of_tile < 0).all())


@given(lengths=LENGTHS, span=SPANS)
def test_an_own_tile_of_causal_attention_ends_with_its_last_query(lengths, span):
    """So the causal mask hides at most the keys of later queries of the block."""
    distance = signed_distance(*lengths)
    for tile, queries, keys in rectangles(tiles(*lengths, span)):
        if tile.side == "own":
            of_last_query = distance[queries, keys][-1]
            assert int(of_last_query.min()) == 0


# Parts of a tile


@given(
    lengths=LENGTHS,
    span=SPANS,
    causal=st.booleans(),
    size=st.integers(1, 5),
)
def test_parts_of_a_tile_cover_its_pairs(lengths, span, causal, size):
    for tile in tiles(*lengths, span, causal=causal):
        parts = []
        for start in range(0, tile.count, size):
            end = min(start + size, tile.count)
            parts.append(tile.part(start, end))
        assert torch.equal(times_covered(parts, *lengths), times_covered([tile], *lengths)), tile


@given(
    lengths=LENGTHS,
    span=SPANS,
    causal=st.booleans(),
    threads=st.integers(0, 9),
)
@example(lengths=[128, 128], span=128, causal=True, threads=2)  # the last tile can be divided
def test_rows_for_threads_cover_the_pairs_of_the_tile(lengths, span, causal, threads):
    for tile in tiles(*lengths, span, causal=causal):
        split = tile.split_rows(threads)
        assert torch.equal(times_covered([split], *lengths), times_covered([tile], *lengths)), tile


SINGLE = Tile("before", query=4, rows=6, key=0, width=4)


def test_the_rows_of_a_single_rectangle_are_divided_among_threads():
    split = SINGLE.split_rows(3)
    assert split.count == 3
    assert split.rows == 2


def test_the_parts_of_divided_rows_have_equal_keys():
    last = SINGLE.split_rows(3).part(2, 3)
    assert last == replace(SINGLE, query=8, rows=2, query_step=2)


@each_case(
    ("tile", "threads"),
    {
        "no threads": (SINGLE, 0),
        "one thread": (SINGLE, 1),
        "rows that are no multiple": (SINGLE, 4),
        "own keys, which have a mask": (replace(SINGLE, side="own"), 3),
        "several rectangles": (replace(SINGLE, count=2, query_step=6, key_step=6), 3),
    },
)
def test_rows_stay_together_that_cannot_be_divided(tile, threads):
    assert tile.split_rows(threads) == tile


# Views


def of_its_own(length):
    return torch.arange(2.0 * length * 3).view(2, length, 3)


def of_a_head(length):
    """One of two heads of a tensor [batch, length, heads, channels]."""
    return torch.arange(2.0 * length * 6).view(2, length, 2, 3)[:, :, 1]


def expanded(length):
    return torch.arange(6.0).view(2, 1, 3).expand(2, length, 3)


every_layout = pytest.mark.parametrize("tensor_of", [of_its_own, of_a_head, expanded])


@every_layout
@given(length=st.integers(1, 300), span=st.integers(0, 400))
def test_queries_and_keys_are_those_of_the_rectangles(length, span, tensor_of):
    tensor = tensor_of(length)
    for tile in tiles(length, length, span):
        queries_of_tile = tile.queries(tensor)
        keys_of_tile = tile.keys(tensor)
        for index, (_, queries, keys) in enumerate(rectangles([tile])):
            assert torch.equal(queries_of_tile[:, index], tensor[:, queries])
            assert torch.equal(keys_of_tile[:, index], tensor[:, keys])


@every_layout
def test_queries_and_keys_are_views(tensor_of):
    tensor = tensor_of(300)
    memory = tensor.untyped_storage().data_ptr()
    for tile in tiles(300, 300, 100):
        assert tile.queries(tensor).untyped_storage().data_ptr() == memory
        assert tile.keys(tensor).untyped_storage().data_ptr() == memory
