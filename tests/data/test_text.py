"""Loading a text, and splitting it into a training part and a validation part."""

import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alibi_viz import lab
from alibi_viz.data.text import STRETCH, Text, check_testable, find_built_in
from tests.rows import each_case

# 390 kB
LINES = "\n".join(
    f"Line {number} of a text of our own, with some words." for number in range(8_000)
)


def parts(text):
    """The training and the validation part."""
    return text.train.numpy().tobytes(), text.validation.numpy().tobytes()


def share_of_validation(text):
    return len(text.validation) / (len(text.train) + len(text.validation))


# The built-in texts


def test_the_built_in_text_is_the_tales():
    text = lab.load_text()
    assert text.name == "tales"
    assert len(text.train) == 500_000
    assert len(text.validation) == 100_000


def test_the_built_in_text_is_read_once():
    assert lab.load_text() is lab.load_text()


def test_the_reference_of_this_python_is_read():
    text = lab.python_text()
    train, _ = parts(text)
    assert text.name == f"Python {sys.version_info.major}.{sys.version_info.minor} reference"
    assert len(train) > 300_000
    assert train.decode().count(" the ") > 2_500


def test_a_missing_reference_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(ImportError, match="pydoc_data"):
        lab.python_text()


@pytest.mark.parametrize("load", [lab.load_text, lab.python_text], ids=["tales", "python"])
def test_a_built_in_text_is_found_by_its_fingerprint(load):
    text = load()
    found = find_built_in(text.fingerprint)
    assert found is not None
    assert (found.name, parts(found)) == (text.name, parts(text))


def test_no_other_text_is_found_by_its_fingerprint():
    assert find_built_in(lab.load_text("to be").fingerprint) is None


def test_without_the_reference_the_tales_are_found(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    tales = lab.load_text()
    assert find_built_in.__wrapped__(tales.fingerprint) is tales


def test_your_own_text_has_no_recorded_facts():
    with pytest.raises(ValueError, match="your text has no recorded facts"):
        _ = lab.load_text("to be").facts


def test_texts_are_compared_by_identity():
    text = lab.load_text()
    assert text in [lab.load_text("to be"), text]
    assert lab.load_text("to be") != lab.load_text("to be")


def test_a_part_of_another_dtype_is_refused():
    text = lab.load_text()
    message = r"validation must be a uint8 tensor \[bytes\], .* got torch\.int64"
    with pytest.raises(TypeError, match=message):
        Text("mine", text.train, text.validation.long())


# Where a text is split


@given(st.text(min_size=1, max_size=300), st.integers(1, 40))
def test_a_short_text_is_split_once_at_about_nine_tenths(words, times):
    data = (words.replace("\0", "0") * times).encode("utf-8", "replace")
    train, validation = parts(lab.load_text(data))
    assert train + validation == data
    beyond = len(train) - len(data) * 9 // 10
    assert 0 <= beyond <= max(3, len(data) // 100)


@given(st.text(min_size=1, max_size=300), st.integers(1, 40))
def test_a_text_is_never_split_inside_a_character(words, times):
    data = (words.replace("\0", "0") * times).encode("utf-8", "replace")
    train, validation = parts(lab.load_text(data))
    assert train.decode() + validation.decode() == data.decode()


@pytest.mark.parametrize("letter", ["a", "世", "🙂"])
def test_a_long_text_without_lines_is_cut_between_characters(letter):
    # Two stretches, with cuts at four places; each is tried at every byte of a character.
    size = len(letter.encode())
    for shift in range(size):
        content = "x" * shift + letter * (2 * STRETCH // size + 7)
        train, validation = (part.decode() for part in parts(lab.load_text(content)))
        assert len(train) + len(validation) == len(content)
        assert len(validation.encode()) == pytest.approx(0.1 * len(content.encode()), rel=0.01)


def of_long_lines(length):
    """5 MB of lines of equal length."""
    return lab.load_text(b"\n".join([b"x" * length] * (5_000_000 // length)))


@pytest.mark.parametrize("length", [1_200, 40_000, 170_000])
def test_the_validation_part_is_a_tenth_however_long_the_lines(length):
    assert share_of_validation(of_long_lines(length)) == pytest.approx(0.1, abs=0.01)


def test_short_lines_stay_whole():
    length = STRETCH // 200
    _, validation = parts(of_long_lines(length))
    assert set(map(len, validation.split(b"\n"))) <= {0, length}


each_text = each_case(
    ("text", "share"),
    {"lines": (lab.load_text(LINES), 0.1), "Python": (lab.python_text(), 0.15)},
)


@each_text
def test_the_validation_part_has_its_share(text, share):
    assert share_of_validation(text) == pytest.approx(share, abs=0.01)


@each_text
def test_the_validation_part_is_not_in_the_training_part(text, share):
    train, validation = parts(text)
    of_the_first_stretch = validation[: int(STRETCH * share) // 2]
    assert of_the_first_stretch not in train


def test_the_validation_part_is_the_end_of_each_long_stretch():
    _, validation = parts(lab.load_text(LINES))
    blocks = [block for block in re.split("(?=Line)", validation.decode()) if block]
    numbers = [int(block.split()[1]) for block in blocks]
    gaps = [after for before, after in pairwise(numbers) if after != before + 1]
    assert len(gaps) == 1, "the text has two stretches"


def test_no_line_is_lost():
    train, validation = parts(lab.load_text(LINES))
    assert sorted((train + validation).splitlines()) == sorted(LINES.encode().splitlines())


# What a text is made of

CONTENT = "grüße, 世界 🙂 שלום"


@pytest.mark.parametrize("kind", [str, str.encode, bytearray, memoryview], ids=repr)
def test_text_and_bytes_are_the_content(kind):
    given_as = kind(CONTENT) if kind in (str, str.encode) else kind(CONTENT.encode())
    assert b"".join(parts(lab.load_text(given_as))).decode() == CONTENT


def test_a_path_is_read(tmp_path):
    file = tmp_path / "words.txt"
    file.write_text(CONTENT, encoding="utf-8")
    text = lab.load_text(file)
    assert text.name == "words.txt"
    assert b"".join(parts(text)).decode() == CONTENT


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_byte_order_mark_tells_the_encoding(encoding):
    assert b"".join(parts(lab.load_text(CONTENT.encode(encoding)))).decode() == CONTENT


def test_text_in_another_encoding_is_refused_with_a_way_out(tmp_path):
    file = tmp_path / "words.txt"
    file.write_text("grüße", encoding="cp1252")
    with pytest.raises(ValueError, match=r"words.txt is not UTF-8 .* give the text itself"):
        lab.load_text(file)


def test_a_string_that_names_a_file_is_refused_with_a_way_out():
    with pytest.raises(ValueError, match=r"give pathlib\.Path\('nofile\.txt'\)"):
        lab.load_text("nofile.txt")


def test_a_sentence_that_ends_like_a_file_is_a_text():
    assert parts(lab.load_text("read me.txt")) == (b"read me.t", b"xt")


# Repeats


@each_case(
    ("content", "repeats"),
    {
        "a sentence": ("to be or not to be, " * 500, 1),
        "a letter": ("x" * 640, 1),
        "lines": (LINES, 0),
        "short": ("short", 0),
    },
)
def test_repeats_are_the_share_of_the_validation_part_in_the_training_part(content, repeats):
    assert lab.load_text(content).repeats == repeats


def test_a_validation_part_may_repeat_in_part():
    unique = "".join(f"{number:06}" for number in range(10_000))
    half = unique[:54_000] + unique[:3_000] + unique[57_000:]
    assert lab.load_text(half).repeats == pytest.approx(0.5, abs=0.03)


# Texts that are too short


def test_a_text_can_be_tested_up_to_its_length():
    text = lab.load_text(LINES[:3_000])
    longest = len(text.validation) - 2
    check_testable(text, longest)
    message = rf"at length {longest + 1:,}: .* {longest + 3:,} are needed; .* 3,\d\d\d bytes in all"
    with pytest.raises(ValueError, match=message):
        check_testable(text, longest + 1)


@pytest.mark.parametrize("separator", ["\n", "世", " "])
def test_a_text_of_the_bytes_that_are_asked_for_is_long_enough(separator):
    with pytest.raises(ValueError, match="too short to test at length 128") as error:
        check_testable(lab.load_text("short"), 128)
    in_all = int(re.search(r"with ([\d,]+) bytes in all", str(error.value))[1].replace(",", ""))
    words = separator.join(map(str, range(9_000))).encode()
    for shift in range(3):  # so that a character is cut at each of its bytes
        data = b"x" * shift + words[: in_all - shift]
        whole = data.decode("utf-8", "ignore").encode()
        check_testable(lab.load_text(whole.ljust(in_all, b".")), 128)


def test_a_text_of_repeats_cannot_be_tested():
    with pytest.raises(ValueError, match="has nothing but repeats"):
        check_testable(lab.load_text("to be or not to be, " * 500), 8)


# What is refused


@each_case(
    ("content", "error", "message"),
    {
        "empty": ("", ValueError, "your text is empty"),
        "not UTF-8": (b"abc\xff\xfe", ValueError, "byte 0xff at position 3"),
        "half a pair": ("ab\ud83d", ValueError, r"'\\ud83d' at position 2"),
        "binary": (b"PK\x03\x04\x00\x01", ValueError, "zero byte at position 4"),
        "a number": (3, TypeError, "got int"),
        "no file": (Path("nowhere.txt"), FileNotFoundError, "no file 'nowhere.txt'"),
        "a folder": (Path(), FileNotFoundError, "no file '.'"),
    },
)
def test_unusable_content_is_refused_with_the_reason(content, error, message):
    with pytest.raises(error, match=message):
        lab.load_text(content)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    with (tmp_path / "huge.txt").open("wb") as file:
        file.truncate(10**12)  # sparse: reading it would need 1 TB
    with pytest.raises(ValueError, match=r"huge\.txt has 1000000\.0 MB"):
        lab.load_text(tmp_path / "huge.txt")


def test_twenty_megabytes_are_the_most():
    assert repr(lab.load_text(b"x" * 20_000_000)) == "Text('your text', 20,000,000 bytes)"
    with pytest.raises(ValueError, match=r"tales has 20\.0 MB; at most 20 MB"):
        lab.tales_text(10_000_000, 10_000_001)
