"""Floor 3: what counts as a text, and what is said of all that does not."""

import pytest

from alibi_viz import lab
from alibi_viz.lab.text import MAX_BYTES


def test_built_in_text_is_long_english_prose():
    text = lab.load_text()
    assert len(text.data) > 300_000
    prose = bytes(text.data.tolist()).decode()
    assert prose.count(" the ") > 3_000


def test_string_bytes_and_file_give_the_same_text(tmp_path):
    words = "grüße, 世界 🙂 שלום"
    file = tmp_path / "words.txt"
    file.write_text(words, encoding="utf-8")
    expected = list(words.encode())
    for text in (lab.load_text(words), lab.load_text(words.encode()), lab.load_text(path=file), lab.load_text(file)):
        assert text.data.tolist() == expected
    assert lab.load_text(path=str(file)).name == "words.txt"


def test_train_and_validation_share_no_byte():
    text = lab.load_text("0123456789")
    assert bytes(text.train.tolist()) == b"012345678"
    assert bytes(text.validation.tolist()) == b"9"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("", "your text is empty"),
        (b"", "your text is empty"),
        (b"abc\xff\xfe", "byte 0xff at position 3"),
        (b"PK\x03\x04\x00\x01", "zero byte at position 4"),
        (b"a" * 50_000_000, "50.0 MB; at most 20 MB"),
    ],
)
def test_unusable_text_is_named(given, says):
    with pytest.raises(ValueError, match=says):
        lab.load_text(given)


def test_missing_path_folder_and_huge_file_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*nowhere\.txt"):
        lab.load_text(path=tmp_path / "nowhere.txt")
    with pytest.raises(ValueError, match="is not a file"):
        lab.load_text(path=tmp_path)
    huge = tmp_path / "huge.txt"
    with huge.open("wb") as file:
        file.truncate(MAX_BYTES + 1)  # sparse: it must be refused before it is read
    with pytest.raises(ValueError, match=r"huge\.txt has 20\.0 MB"):
        lab.load_text(path=huge)


def test_wrong_types():
    with pytest.raises(TypeError, match="got int"):
        lab.load_text(3)
    with pytest.raises(TypeError, match="not both"):
        lab.load_text("a", path="b")


def test_half_a_surrogate_pair_does_not_raise():
    assert bytes(lab.load_text("a\ud83d").data.tolist()) == b"a?"
