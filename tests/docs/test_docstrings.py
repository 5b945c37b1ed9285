"""Docstrings, which look like Markdown, are read as they are meant."""

from textwrap import dedent

from docs.docstrings import escape, to_restructured_text


def test_bars_and_stars_of_prose_are_no_markup():
    assert escape("-m |i - j| * 2") == r"-m \|i - j\| \* 2"


def test_code_between_backticks_is_left_alone():
    assert escape("`f(*args)` and `a | b`") == "`f(*args)` and `a | b`"


def test_indented_code_is_marked_as_code():
    docstring = dedent("""\
        Multiply slopes.

            modify(model, 2 * 0.5)

        The copy shares parameters.""")
    expected = dedent("""\
        Multiply slopes.

        ::

            modify(model, 2 * 0.5)

        The copy shares parameters.""")
    assert to_restructured_text(docstring) == expected


def test_code_with_a_blank_line_is_marked_once():
    docstring = "Two ways:\n\n    one()\n\n    two()\n\nThat is all."
    assert to_restructured_text(docstring).count("::") == 1


def test_an_example_is_left_alone():
    docstring = "Power.\n\n>>> 2 ** 3\n8"
    assert to_restructured_text(docstring) == docstring


def test_arguments_are_no_code():
    docstring = "Cut.\n\nArgs:\n    length: of tokens.\n    heads: how many.\n\nReturns a copy."
    assert to_restructured_text(docstring) == docstring
