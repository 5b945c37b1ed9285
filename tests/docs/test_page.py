"""The page without a kernel holds the numbers of the library, and links the lessons."""

import base64
import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from markupsafe import Markup, escape
from PIL import Image

from alibi_viz import lab, lessons, study
from alibi_viz.figures.curve_plot import COMMON_METHODS
from alibi_viz.figures.theme import COLORS
from alibi_viz.files import lesson_files
from alibi_viz.measure.continuations import LONG_WORD
from docs.page import build
from docs.page.claims import SENTENCES, claim_groups
from docs.page.lesson_cards import lesson_cards
from docs.page.motifs import HEIGHT, WIDTH


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The text of the whole page."""
    path = build.build_page(tmp_path_factory.mktemp("made") / "site")
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def data(page):
    """What the page computes with."""
    element = page.split('id="data">')[1].split("</script>", maxsplit=1)[0]
    return json.loads(element)


def image(source):
    """The image in a data URL."""
    return Image.open(io.BytesIO(base64.b64decode(source.split(",")[1])))


def test_page_is_small(page):
    assert len(page) < 2_500_000


def test_without_javascript_the_page_shows_eight_heads(page):
    sources = re.findall(r'"(data:\S+)" alt="Weights of head \d of 8"', page)
    assert [image(source).size for source in sources] == [(32, 32)] * 8


def test_without_javascript_each_of_three_models_has_written_448_bytes_after_the_beginning(
    page,
):
    stored = re.findall(
        r'model writes"><noscript>(.*?)<span class="beyond">(.*?)</span>', page, re.DOTALL
    )
    assert len(stored) == 3
    for within, beyond in stored:
        assert len(Markup(within).unescape()) == 64  # up to the training length
        assert len(Markup(beyond).unescape()) == len(build.BEGINNING) + 448 - 64


@pytest.mark.parametrize("name", build.QUIZ)
def test_each_question_of_the_quiz_offers_three_answers_one_of_them_right(name):
    case = build._case(lessons.BUGS[name])
    assert len(case["answers"]) == 3
    assert case["answers"].count(lessons.BUGS[name].fault) == 1


@pytest.mark.parametrize("name", build.QUIZ)
def test_pictures_of_a_question_differ(name):
    case = build._case(lessons.BUGS[name])
    assert case["correct"] != case["wrong"]


def test_the_numbers_of_a_question_are_percent_of_the_largest_weight_of_a_row():
    correct, wrong = build._case(lessons.BUGS["case 1"])["tables"]  # head 2 has the slope 1/4
    query, numbers = correct["rows"][2]
    weights = [math.exp(-2 / 4), math.exp(-1 / 4), 1]
    assert query == 2
    assert numbers[:3] == [f"{weight:.0%}" for weight in weights]
    assert numbers[3:] == ["0%"] * 13  # masked
    assert wrong["rows"][2][1][:3] == numbers[2::-1]  # the sign is reversed


def test_every_lesson_has_a_card_with_its_question_minutes_and_motif(page):
    notebooks = lesson_files()
    cards = lesson_cards()
    assert [card.name for card in cards] == [notebook.stem for notebook in notebooks]
    for card in cards:
        assert f'href="lessons/{card.name}.html"' in page
        assert f"{card.minutes} minutes" in page
        assert escape(card.question) in page
        assert card.motif in page
    assert len({card.motif for card in cards}) == len(notebooks)


def test_a_motif_stays_in_its_picture_and_follows_the_colors_of_the_page(page):
    shapes = "".join(card.motif for card in lesson_cards())
    assert not re.search(r"nan|inf", shapes)
    places = re.findall(r"[ML](-?[\d.]+),(-?[\d.]+)", shapes)
    assert all(0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for x, y in places)
    variables = set(re.findall(r"var\((--[\w-]+)\)", shapes))
    assert all(f"{variable}: #" in page for variable in variables)


def test_a_card_says_what_its_notebook_says():
    start, line, *_ = lesson_cards()
    assert (start.number, start.title, start.minutes) == ("0", "Start here: a race", "7")
    assert line.question.startswith("How much does a head still hear of a word")


def test_page_links_the_report_and_the_reference(page):
    assert 'href="lessons/report.html"' in page
    assert 'href="api.html"' in page


def test_source_is_linked_as_soon_as_there_is_a_repository(page, monkeypatch, tmp_path):
    assert ">Source</a>" not in page
    monkeypatch.setattr(build, "REPOSITORY", "https://example.org/alibi_viz")
    path = build.build_page(tmp_path)
    link = '<a href="https://example.org/alibi_viz">Source</a>'
    assert link in path.read_text(encoding="utf-8")


def test_links_to_the_page_show_a_card_as_soon_as_it_has_an_address(page, monkeypatch, tmp_path):
    assert "og:" not in page
    monkeypatch.setattr(build, "ADDRESS", "https://example.org/alibi")
    text = build.build_page(tmp_path).read_text(encoding="utf-8")
    assert '<meta property="og:url" content="https://example.org/alibi/">' in text
    assert '<meta property="og:image" content="https://example.org/alibi/page.gif">' in text
    assert '<meta name="twitter:card" content="summary_large_image">' in text


def test_readme_leads_to_the_page():
    readme = (Path(build.__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert (build.ADDRESS or "site/index.html") in readme


@pytest.mark.parametrize("name", ["alibi", "rotary", "sinusoidal"])
def test_page_has_the_weights_of_the_published_models(data, name):
    packed = data["models"][name]
    weights = np.frombuffer(base64.b64decode(packed["weights"]), "<f2")
    parameters = study.published_model(name).model.state_dict().values()
    expected = torch.cat([parameter.flatten() for parameter in parameters]).half()
    np.testing.assert_array_equal(weights, expected.numpy())
    sizes = {"layers": 2, "width": 64, "heads": 4, "vocabulary": 256}
    assert packed["config"] == {**sizes, "position": name}


def test_page_knows_the_words_of_the_tales(data):
    text = bytes(lab.load_text().train.tolist()).decode()
    assert set(data["words"]) == set(LONG_WORD.findall(text))


def test_race_in_the_page_is_tested_on_other_tales(data):
    race = data["race"]
    assert len(race["training"]) >= build.TRAINING
    assert race["validation"][:2000] not in race["training"]
    assert set(race["validation"]) <= set(race["characters"])
    assert set(race["training"]) == set(race["characters"])
    assert race["settings"] == build.RACE
    assert race["config"] == build.RACE_MODEL


def test_race_in_the_page_has_the_yardsticks_of_its_tales(data):
    race = data["race"]
    letters = np.array(list(race["training"].encode()))
    counts = np.bincount(letters, minlength=256) + 0.5
    bits = -np.log2(counts / counts.sum())
    predicted = list(race["validation"][1:].encode())
    assert race["yardsticks"]["letter frequencies"] == pytest.approx(bits[predicted].mean())
    assert 3 < race["yardsticks"]["letter pairs"] < 3.5


def far_share_section(page):
    """The question about rotary, and the folded numbers that answer it."""
    section = page.split('id="rotary"')[1].split("</section>")[0]
    return section.split("<details")


@pytest.mark.parametrize(
    ("name", "stop", "brake"), [("never", 1024, 0), ("31", 31, 0), ("1/8", 1024, 1 / 8)]
)
def test_the_numbers_on_far_keys_are_the_published_means(page, name, stop, brake):
    _, numbers = far_share_section(page)
    table = study.far_keys().query("stop == @stop == share_stop and brake == @brake")
    bits = f"{table['bits'].mean():.2f}"
    far_share = f"{table['far_share'].mean():.0%}"
    assert f'<th scope="row">{name}</th><td>{far_share}</td><td>{bits}</td>' in numbers


def test_no_number_on_far_keys_is_told_before_the_guess(page):
    question, numbers = far_share_section(page)
    window = study.far_keys().query("brake == inf")["bits"].mean()
    assert f"{window:.2f}" in numbers
    assert not re.search(r"\d\.\d|\d%", question)


@pytest.fixture(scope="module")
def verdicts():
    return study.verdict_table(study.published_results(by_block=True))


def test_every_claim_is_in_the_group_of_its_outcome_with_a_mark_for_every_verdict(
    verdicts,
):
    reach = study.reach_table(verdicts).set_index("claim")
    absent_marks = {"✓": {"✗", "?"}, "✗": {"✓"}, "?": set()}
    told = []
    for group in claim_groups(verdicts, reach.reset_index()):
        for claim in group.claims:
            marks = [mark["mark"] for mark in claim["marks"]]
            row = reach.loc[claim["name"]]
            assert marks == ["✓"] * row["seen"] + ["✗"] * row["not_seen"] + ["?"] * row["open"]
            assert not absent_marks[group.mark].intersection(marks)
            told.append(claim["name"])
    assert sorted(told) == sorted(reach.index)


def test_a_mark_names_its_setting_in_the_page(page, verdicts):
    row = verdicts[(verdicts["claim"] == "ALiBi holds") & (verdicts["verdict"] == "not_seen")]
    assert list(row["setting"]) == ["2-heads-of-32"]
    assert '<i class="not_seen" title="2 heads of 32: not seen">✗</i>' in page


def test_plain_sentences_of_claims_keep_their_lengths(verdicts):
    """A claim on sequences of 16L says "16 times" in plain words, too."""
    for claim, text in verdicts.groupby("claim")["text"].first().items():
        longer = set(re.findall(r"(\d+)L", text))
        assert set(re.findall(r"(\d+) times", SENTENCES[str(claim)])) == longer


def test_plain_sentences_of_claims_have_no_symbols_for_lengths(page):
    claims = page.split('id="claims"')[1].split("</section>", maxsplit=1)[0]
    assert not re.search(r"\b\d*L\b", claims)


def test_script_of_the_page_has_no_modules_which_browsers_refuse_from_files():
    script = build.script(*build.SCRIPTS)
    assert not re.search(r"^(import|export) ", script, re.M)


def test_no_name_is_defined_by_two_scripts_of_the_page():
    """They are joined into one, where the later definition would replace the earlier."""
    script = build.script(*build.SCRIPTS)
    names = re.findall(r"^(?:async )?(?:function\*?|class|const|let) (\w+)", script, re.M)
    assert len(names) == len(set(names))


def test_a_picture_has_the_colors_of_the_notebooks_with_the_first_query_on_top():
    weights = np.array([[0, 0.25, 0.5], [0.75, 1, 0]], dtype=np.float32)
    masked = np.array([[False, False, False], [False, False, True]])
    pixels = np.asarray(image(build._picture(weights, masked)).convert("RGBA"))
    assert pixels.shape == (2, 3, 4)  # rows, columns, channels
    shown = pixels.reshape(-1, 4)[:5]
    # Cividis from 0 to 1: dark blue to yellow
    assert shown[0].tolist() == [*bytes.fromhex("00224e"), 255]
    assert shown[4].tolist() == [*bytes.fromhex("fee838"), 255]
    lightness = shown[:, :3].sum(axis=1, dtype=int)
    assert (np.diff(lightness) > 0).all()


def test_methods_have_the_colors_of_the_notebooks(page):
    for position in build.MODELS:
        slot = COMMON_METHODS.index(position)
        assert f"--{position}: {COLORS[slot].lower()};" in page


def test_masked_cells_of_a_picture_are_transparent():
    weights = np.array([[1.0, 0.0]], dtype=np.float32)
    pixels = np.asarray(image(build._picture(weights, weights == 0)).convert("RGBA"))
    assert pixels[0, :, 3].tolist() == [255, 0]
