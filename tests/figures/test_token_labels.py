"""Tokens in figures: no markup, never empty, never cut inside a character."""

import html
import unicodedata

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import wcswidth

from alibi_viz.figures.token_labels import label, literal, quoted_token


@given(st.text())
def test_literal_escapes_markup_and_keeps_every_character(text):
    shown = literal(text)
    assert not {"<", ">", "$"} & set(shown) and html.unescape(shown) == text


@given(st.text(min_size=1))
def test_label_is_visible_and_at_most_ten_columns_wide(token):
    shown = html.unescape(label(token, 10))
    assert regex.search(
        r"[^\p{C}\p{M}\p{Z}]", shown
    )  # `unicodedata` may know fewer characters than `regex`
    assert (
        wcswidth(
            "".join(character for character in shown if unicodedata.category(character) != "Cc")
        )
        <= 10
    )


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ('"<&amp;>"', '"&lt;&amp;amp;&gt;"'),  # plotly would show &quot; as it is
        ("extraordinary", "extraordi…"),
        ("漢字漢字漢字", "漢字漢字…"),
        ("e\u0301" * 12, "e\u0301" * 9 + "…"),
        ("12345678👩\u200d👩\u200d👧x", "12345678…"),  # two columns
        ("\u1100" * 9 + "xy", "\u1100" * 9 + "…"),  # one character of 18 columns
        ("12345\x0767890", "12345\x0767890"),  # what isn't drawn takes no column
        ("\u200b", "U+200B"),
        ("\u0301", "U+0301"),
    ],
)
def test_label_escapes_cuts_and_names_invisible_characters(token, shown):
    assert label(token) == shown


def test_quoted_isolates_right_to_left_tokens_and_cuts_long_ones():
    assert (quoted_token("c" * 24), quoted_token("c" * 25)) == (f"“{'c' * 24}”", f"“{'c' * 23}…”")
    assert [quoted_token(token) for token in ("ab\u05d0", "a\u202eb")] == [
        "“\u2068ab\u05d0\u2069”",
        "“\u2068a\u202eb\u2069”",
    ]
