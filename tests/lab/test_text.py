"""Loading a text, and splitting it into a training part and a validation part."""

import hashlib
import re
import sys
from itertools import pairwise

import pytest

from alibi_viz import lab
from alibi_viz.lab.text import MAX_BYTES, STRETCH

LINES = "\n".join(f"Line {number} of a text of our own, with some words." for number in range(8_000))  # 390 kB


def test_built_in_text_is_tales():
    text = lab.load_text()
    assert (text.name, len(text.train), len(text.validation)) == ("tales", 500_000, 100_000)
    assert lab.load_text() is text


def test_python_reference_is_read_from_this_python():
    text = lab.python_text()
    assert text.name == f"Python {sys.version_info.major}.{sys.version_info.minor} reference"
    assert len(text.train) > 300_000
    assert bytes(text.train).decode().count(" the ") > 3_000


def test_python_without_its_reference_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(ImportError, match="pydoc_data"):
        lab.python_text()


def test_string_bytes_and_file_give_the_same_text(tmp_path):
    content = "grüße, 世界 🙂 שלום"
    file = tmp_path / "words.txt"
    file.write_text(content, encoding="utf-8")
    for text in (
        lab.load_text(content),
        lab.load_text(content.encode()),
        lab.load_text(memoryview(content.encode())),
        lab.load_text(path=file),
        lab.load_text(file),
    ):
        assert (text.train.numpy().tobytes() + text.validation.numpy().tobytes()).decode() == content
    assert lab.load_text(path=str(file)).name == "words.txt"


@pytest.mark.parametrize("text", [lab.load_text(LINES), lab.python_text()], ids=["lines", "python"])
def test_validation_part_is_the_last_tenth_of_long_stretches(text):
    train, validation = bytes(text.train), bytes(text.validation)
    assert 0.09 < len(validation) / len(train + validation) < 0.11
    size = len(validation) * STRETCH // len(train + validation)  # of a block, roughly
    assert validation[: size // 2] not in train
    if text.name == "your text":
        blocks = [block for block in re.split("(?=Line)", validation.decode()) if block]
        numbers = [int(block.split()[1]) for block in blocks]
        seams = sum(after != before + 1 for before, after in pairwise(numbers))
        assert seams == len(LINES) // STRETCH - 1  # elsewhere every line follows the one before it in the source
        assert sorted((train + validation).splitlines()) == sorted(LINES.encode().splitlines())


@pytest.mark.parametrize("content", ["0123456789", "one paragraph of many words " * 50, "äöü" * 700, "\n" * 99])
def test_short_text_is_split_at_nine_tenths_between_characters(content):
    text, data = lab.load_text(content), content.encode()
    train, validation = text.train.numpy().tobytes(), text.validation.numpy().tobytes()
    assert train + validation == data
    assert 0 <= len(train) - len(data) * 9 // 10 <= max(1, len(data) // 100)
    assert train.decode() + validation.decode() == content


def test_repeats_are_the_share_of_the_validation_part_that_stands_in_the_training_part():
    assert lab.load_text("to be or not to be, " * 500).repeats == 1
    assert lab.load_text(LINES).repeats == 0
    assert lab.load_text("short").repeats == 0
    unique = "".join(f"{number:06}" for number in range(10_000))
    half = lab.load_text(unique[:54_000] + unique[:3_000] + unique[57_000:])
    assert half.repeats == pytest.approx(0.5, abs=0.03)


def test_facts_of_a_text_without_any_raise():
    with pytest.raises(ValueError, match=r"your text has no recorded facts: only the tales have"):
        _ = lab.load_text("to be").facts


def test_fingerprint_identifies_the_bytes():
    assert lab.load_text("a text").fingerprint == hashlib.sha256(b"a text").hexdigest()[:16]
    assert lab.load_text(b"a text").fingerprint != lab.load_text("a text ").fingerprint


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "your text is empty"),
        (b"", "your text is empty"),
        (b"abc\xff\xfe", "byte 0xff at position 3"),
        (b"PK\x03\x04\x00\x01", "zero byte at position 4"),
        (b"a" * 50_000_000, "50.0 MB; at most 20 MB"),
    ],
)
def test_unusable_content_raises_with_the_reason(content, message):
    with pytest.raises(ValueError, match=message):
        lab.load_text(content)


def test_missing_file_folder_and_huge_file_raise(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*nowhere\.txt"):
        lab.load_text(path=tmp_path / "nowhere.txt")
    with pytest.raises(ValueError, match="is not a file"):
        lab.load_text(path=tmp_path)
    huge = tmp_path / "huge.txt"
    with huge.open("wb") as file:
        file.truncate(MAX_BYTES + 1)  # sparse; the size must be checked before the file is read
    with pytest.raises(ValueError, match=r"huge\.txt has 20\.0 MB"):
        lab.load_text(path=huge)


def test_texts_can_be_compared_and_found_in_a_list():
    text = lab.load_text("to be or not to be")
    assert text in [lab.load_text("to be"), text]


def test_other_types_and_two_arguments_raise():
    with pytest.raises(TypeError, match="got int"):
        lab.load_text(3)
    with pytest.raises(TypeError, match="not both"):
        lab.load_text("a", path="b")


def test_unpaired_surrogate_becomes_a_question_mark():
    assert lab.load_text("a\ud83d").validation.tolist() == [ord("?")]
