"""Loading a text, and splitting it into a training part and a validation part."""

import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alibi_viz import lab
from alibi_viz.data.text import STRETCH, Text, check_testable

LINES = "\n".join(
    f"Line {number} of a text of our own, with some words." for number in range(8_000)
)  # 390 kB


def parts(text: Text) -> tuple[bytes, bytes]:
    return text.train.numpy().tobytes(), text.validation.numpy().tobytes()


def test_the_built_in_text_is_the_tales_and_read_once() -> None:
    text = lab.load_text()
    assert (text.name, *map(len, parts(text))) == (
        "tales",
        500_000,
        100_000,
    ) and lab.load_text() is text
    assert text in [lab.load_text("to be"), text], "texts are compared by identity"
    with pytest.raises(
        TypeError, match=r"validation must be a uint8 tensor \[bytes\], .* got torch\.int64"
    ):
        Text("mine", text.train, text.validation.long())
    with pytest.raises(ValueError, match="your text has no recorded facts"):
        _ = lab.load_text("to be").facts


def test_the_reference_of_this_python_is_read_or_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = lab.python_text()
    assert text.name == f"Python {sys.version_info.major}.{sys.version_info.minor} reference"
    assert len(text.train) > 300_000
    assert parts(text)[0].decode().count(" the ") > 2_500
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(ImportError, match="pydoc_data"):
        lab.python_text()


@given(st.text(min_size=1, max_size=300), st.integers(1, 40))
def test_a_short_text_is_split_once_at_about_nine_tenths_and_never_inside_a_character(
    words: str, times: int
) -> None:
    data = (words.replace("\0", "0") * times).encode("utf-8", "replace")
    train, validation = parts(lab.load_text(data))
    assert train + validation == data and 0 <= len(train) - len(data) * 9 // 10 <= max(
        3, len(data) // 100
    )
    assert train.decode() + validation.decode() == data.decode()


@pytest.mark.parametrize("line", [1_200, 20_000, 40_000, 170_000])
def test_lines_may_be_long(line: int) -> None:
    train, validation = parts(lab.load_text(b"\n".join([b"x" * line] * (5_000_000 // line))))
    assert len(validation) / len(train + validation) == pytest.approx(0.1, abs=0.01)
    assert line > STRETCH // 100 or {*map(len, validation.split(b"\n"))} <= {0, line}, (
        "whole lines, if they are short"
    )


@pytest.mark.parametrize("letter", ["a", "ä", "世", "🙂"])
def test_a_long_text_without_lines_is_cut_between_characters(letter: str) -> None:
    """Two stretches, with cuts at four places; each is tried at every byte of a character."""
    for shift in range(len(letter.encode())):
        content = "x" * shift + letter * (2 * STRETCH // len(letter.encode()) + 7)
        train, validation = (part.decode() for part in parts(lab.load_text(content)))
        assert len(train) + len(validation) == len(content)
        assert len(validation.encode()) == pytest.approx(0.1 * len(content.encode()), rel=0.01)


@pytest.mark.parametrize(
    ("text", "share"), [(lab.load_text(LINES), 0.1), (lab.python_text(), 0.15)]
)
def test_the_validation_part_is_the_end_of_each_long_stretch_in_whole_lines(
    text: Text, share: float
) -> None:
    train, validation = parts(text)
    assert len(validation) / len(train + validation) == pytest.approx(share, abs=0.01)
    assert validation[: len(validation) * STRETCH // len(train + validation) // 2] not in train
    if text.name == "your text":
        numbers = [
            int(block.split()[1]) for block in re.split("(?=Line)", validation.decode()) if block
        ]
        assert sum(after != before + 1 for before, after in pairwise(numbers)) == 1, "two stretches"
        assert sorted((train + validation).splitlines()) == sorted(LINES.encode().splitlines())


def test_a_str_is_the_text_and_a_path_a_file(tmp_path: Path) -> None:
    content, file = "grüße, 世界 🙂 שלום", tmp_path / "words.txt"
    file.write_text(content, encoding="utf-8")
    for each in (
        content,
        content.encode(),
        bytearray(content.encode()),
        memoryview(content.encode()),
        file,
    ):
        assert b"".join(parts(lab.load_text(each))).decode() == content
    assert (
        lab.load_text(file).name == "words.txt"
        and b"".join(parts(lab.load_text(str(file)))) == str(file).encode()
    )
    assert parts(lab.load_text("a\ud83d"))[1] == b"?", "an unpaired surrogate"


def test_repeats_are_the_share_of_the_validation_part_that_stands_in_the_training_part() -> None:
    assert (
        lab.load_text("to be or not to be, " * 500).repeats == lab.load_text("x" * 640).repeats == 1
    )
    assert lab.load_text(LINES).repeats == lab.load_text("short").repeats == 0
    unique = "".join(f"{number:06}" for number in range(10_000))
    assert lab.load_text(
        unique[:54_000] + unique[:3_000] + unique[57_000:]
    ).repeats == pytest.approx(0.5, abs=0.03)


def test_the_shortest_text_that_can_be_tested_and_one_byte_less() -> None:
    text = lab.load_text(LINES[:3_000])
    size = len(text.validation)
    check_testable(text, size - 2)
    with pytest.raises(
        ValueError,
        match=f"at length {size - 1:,}: .* at least {size + 1:,} are needed .is it the name",
    ):
        check_testable(text, size - 1)
    with pytest.raises(ValueError, match="has nothing but repeats"):
        check_testable(lab.load_text("to be or not to be, " * 500), 8)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("", ValueError, "your text is empty"),
        (b"abc\xff\xfe", ValueError, "byte 0xff at position 3"),
        (b"PK\x03\x04\x00\x01", ValueError, "zero byte at position 4"),
        (3, TypeError, "got int"),
        (Path("nowhere.txt"), FileNotFoundError, "no file 'nowhere.txt'"),
        (Path(), FileNotFoundError, "no file '.'"),
    ],
)
def test_unusable_content_is_refused_with_the_reason(
    content: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        lab.load_text(content)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.txt").open("wb") as file:
        file.truncate(10**12)  # sparse: reading it would need 1 TB
    with pytest.raises(ValueError, match=r"huge\.txt has 1000000\.0 MB"):
        lab.load_text(tmp_path / "huge.txt")
    assert repr(lab.load_text(b"x" * 20_000_000)) == "Text('your text', 20,000,000 bytes)"
    with pytest.raises(ValueError, match=r"tales has 20\.0 MB; at most 20 MB"):
        lab.tales_text(10_000_000, 10_000_001)
