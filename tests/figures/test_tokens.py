"""Tokens in a picture are text: never markup, never empty, never cut through a character."""

import html
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alibi_viz.figures.tokens import full, label, literal, quoted


@given(st.text())
def test_no_markup_survives_and_nothing_is_lost(text: str) -> None:
    shown = literal(text)
    assert not {"<", ">", "$"} & set(shown)
    assert html.unescape(shown) == text


@given(st.text(min_size=1))
def test_every_label_can_be_seen_and_is_short(token: str) -> None:
    shown = html.unescape(label(token, 10))
    assert any(unicodedata.category(character)[0] not in "CMZ" for character in shown)
    drawn = [character for character in shown if unicodedata.category(character) not in ("Mn", "Me", "Cf")]
    assert sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in drawn) <= 10


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("<script>", "&lt;script&gt;"),
        ("&amp;", "&amp;amp;"),
        ("extraordinary", "extraordi…"),
        ("漢字漢字漢字", "漢字漢字…"),
        ("e\u0301" * 12, "e\u0301" * 9 + "…"),
        ("\u200b", "U+200B"),
        ("\u0301", "U+0301"),
    ],
)
def test_labels(token: str, shown: str) -> None:
    assert label(token) == shown


def test_emoji_that_are_drawn_as_one_are_cut_as_one() -> None:
    family = "👩\u200d👩\u200d👧"
    assert label("12345" + family, 8) == "12345…"
    assert label("1234567👍🏽x", 10) == "1234567…"


def test_a_token_from_right_to_left_turns_nothing_else_round() -> None:
    assert quoted("ab\u05d0") == "“\u2068ab\u05d0\u2069”"
    assert quoted("a\u202eb") == "“\u2068a\u202eb\u2069”"
    assert quoted("cat") == "“cat”"


def test_the_pointer_breaks_long_tokens_into_lines_and_escapes_each() -> None:
    lines = full("<" * 60).split("<br>")
    assert len(lines) == 2
    assert html.unescape("".join(lines)) == "“" + "<" * 60 + "”"
