"""Loading a text, and splitting it by content into a training part and a validation part."""

import hashlib

import pytest

from alibi_viz import lab
from alibi_viz.lab.text import MAX_BYTES

PARAGRAPHS = [f"Paragraph {number} has two lines,\nand this is the second one." for number in range(400)]


def paragraphs(part):
    return bytes(part.tolist()).decode().replace("\r\n", "\n").strip().split("\n\n")


def test_built_in_text_is_long_english_prose():
    text = lab.load_text()
    assert len(text.data) > 300_000
    assert bytes(text.data.tolist()).decode().count(" the ") > 3_000


def test_published_results_are_of_the_built_in_text():
    assert lab.published_results().query("task == 'text'")["text"].unique() == [lab.load_text().fingerprint]


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
        assert bytes(text.data.tolist()) == content.encode()
    assert lab.load_text(path=str(file)).name == "words.txt"


@pytest.mark.parametrize("make", [lab.load_text, lambda: lab.load_text("\n\n".join(PARAGRAPHS))])
def test_parts_have_all_bytes_and_about_a_tenth_is_for_validation(make):
    text = make()
    parts = bytes(text.train.tolist()) + bytes(text.validation.tolist())
    assert sorted(parts) == sorted(text.data.tolist())
    assert 0.05 < len(text.validation) / len(parts) < 0.2


@pytest.mark.parametrize("make", [lab.load_text, lambda: lab.load_text("\n\n".join(PARAGRAPHS * 3))])
def test_no_paragraph_is_in_both_parts(make):
    text = make()
    both = set(paragraphs(text.train)) & set(paragraphs(text.validation))
    assert all(not paragraph.strip() for paragraph in both)


def test_paragraph_keeps_its_part_when_others_come_and_go():
    older, newer = lab.load_text("\n\n".join(PARAGRAPHS[:300])), lab.load_text("\n\n".join(reversed(PARAGRAPHS[100:])))
    for part in ("train", "validation"):
        expected = set(PARAGRAPHS[100:300]) & set(paragraphs(getattr(older, part)))
        assert expected == set(PARAGRAPHS[100:300]) & set(paragraphs(getattr(newer, part)))
        assert expected


def test_paragraph_keeps_its_part_when_its_lines_are_wrapped_differently():
    text = lab.load_text("\n\n".join(PARAGRAPHS))
    wrapped = lab.load_text("\n\n".join(paragraph.replace(" ", "\n  ") for paragraph in PARAGRAPHS))
    assert [paragraph.split() for paragraph in paragraphs(wrapped.validation)] == [
        paragraph.split() for paragraph in paragraphs(text.validation)
    ]


def test_windows_line_ends_are_split_like_unix_line_ends():
    unix = "\n\n".join(PARAGRAPHS)
    windows = lab.load_text(unix.replace("\n", "\r\n"))
    assert paragraphs(windows.validation) == paragraphs(lab.load_text(unix).validation)


@pytest.mark.parametrize(
    "content",
    [
        "0123456789",
        "one paragraph\nof many lines " * 50,
        "few\n\nparagraphs",
        "\n\n".join(PARAGRAPHS[:1] * 200),
    ],
)
def test_last_tenth_is_for_validation_where_paragraphs_cannot_be_split(content):
    text = lab.load_text(content)
    cut = len(content) * 9 // 10
    assert bytes(text.train.tolist()).decode() == content[:cut]
    assert bytes(text.validation.tolist()).decode() == content[cut:]


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
    assert bytes(lab.load_text("a\ud83d").data.tolist()) == b"a?"
