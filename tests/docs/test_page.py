"""The page without a kernel holds the numbers of the library, and links the lessons."""

import base64
import io
import json
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from markupsafe import Markup, escape
from PIL import Image

from alibi_viz import lab, study
from alibi_viz.lessons.copies import lessons_folder
from alibi_viz.measure.continuations import LONG_WORD
from docs.page import build


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of the whole page."""
    path = build.build_page(tmp_path_factory.mktemp("made") / "site")
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def data(page: str) -> dict[str, Any]:
    """What the page computes with."""
    element = page.split('id="data">')[1].split("</script>", maxsplit=1)[0]
    return json.loads(element)


def image(source: str) -> Image.Image:
    """The image in a data URL."""
    return Image.open(io.BytesIO(base64.b64decode(source.split(",")[1])))


def test_page_is_small(page: str) -> None:
    assert len(page) < 2_500_000


def test_without_javascript_the_page_shows_eight_heads(page: str) -> None:
    sources = re.findall(r'"(data:\S+)" alt="Weights of head \d of 8"', page)
    assert [image(source).size for source in sources] == [(32, 32)] * 8


def test_without_javascript_each_of_three_models_has_written_256_bytes_after_the_beginning(
    page: str,
) -> None:
    stored = re.findall(
        r'model writes"><noscript>(.*?)<span class="beyond">(.*?)</span>', page, re.DOTALL
    )
    assert len(stored) == 3
    for within, beyond in stored:
        assert len(Markup(within).unescape()) == 64  # up to the training length
        assert len(Markup(beyond).unescape()) == len(build.BEGINNING) + 256 - 64


def test_one_bug_has_keys_up_to_2048(page: str) -> None:
    assert page.count("<th>key 2047</th>") == 1


def test_page_links_every_lesson_the_report_and_the_reference(page: str) -> None:
    for notebook in lessons_folder().glob("*.ipynb"):
        assert f'href="lessons/{notebook.stem}.html"' in page
    assert '03_clocks.html">Clocks' in page
    assert 'href="lessons/report.html"' in page
    assert 'href="api/alibi_viz.html"' in page


@pytest.mark.parametrize("name", ["alibi", "rotary", "sinusoidal"])
def test_page_has_the_weights_of_the_published_models(data: dict[str, Any], name: str) -> None:
    packed = data["models"][name]
    weights = np.frombuffer(base64.b64decode(packed["weights"]), "<f2")
    parameters = study.published_model(name).model.state_dict().values()
    expected = torch.cat([parameter.flatten() for parameter in parameters]).half()
    np.testing.assert_array_equal(weights, expected.numpy())
    sizes = {"layers": 2, "width": 64, "heads": 4, "vocabulary": 256}
    assert packed["config"] == {**sizes, "position": name}


def test_page_knows_the_words_of_the_tales(data: dict[str, Any]) -> None:
    text = bytes(lab.load_text().train.tolist()).decode()
    assert set(data["words"]) == set(LONG_WORD.findall(text))


def test_race_in_the_page_is_tested_on_other_tales(data: dict[str, Any]) -> None:
    race = data["race"]
    assert len(race["training"]) >= build.TRAINING
    assert race["validation"][:2000] not in race["training"]
    assert set(race["validation"]) <= set(race["characters"])
    assert set(race["training"]) == set(race["characters"])
    assert race["settings"] == build.RACE
    assert race["config"] == build.RACE_MODEL


def test_race_in_the_page_has_the_yardsticks_of_its_tales(data: dict[str, Any]) -> None:
    race = data["race"]
    letters = np.array(list(race["training"].encode()))
    counts = np.bincount(letters, minlength=256) + 0.5
    bits = -np.log2(counts / counts.sum())
    predicted = list(race["validation"][1:].encode())
    assert race["yardsticks"]["letter frequencies"] == pytest.approx(bits[predicted].mean())
    assert 3 < race["yardsticks"]["letter pairs"] < 3.5


# Which of the two boxes are checked in each state
SWITCHES = {
    "as trained": "false false",
    "far brake": "false true",
    "angles stop": "true false",
    "angles stop and far brake": "true true",
}


def published_mean(question: str, state: str, x: int) -> float:
    """Of the rotary models of the study, in a state of the two switches."""
    results = study.published_results()
    is_rotary = (results["setting"] == "main") & (results["label"] == "rotary")
    is_answer = (results["question"] == question) & (results["variant"] == state)
    return float(results[is_rotary & is_answer & (results["x"] == x)]["value"].mean())


@pytest.mark.parametrize("state", SWITCHES)
def test_each_state_of_the_two_switches_has_its_published_numbers(page: str, state: str) -> None:
    cells = re.findall(r'data-state="(.*?)".*?<strong>(.*?)</strong> far keys get (.*?)<', page)
    numbers = {boxes: (bits, far_share) for boxes, bits, far_share in cells}
    bits = published_mean("longer sequences", state, 1024)
    far_share = published_mean("attention beyond L", state, 1024)
    assert numbers[SWITCHES[state]] == (f"{bits:.2f}", f"{far_share:.0%}")


def test_only_both_switches_together_bring_the_loss_back_as_the_page_says(page: str) -> None:
    assert "only both together bring the loss back to what it is on texts of 64 bytes" in page
    trained = published_mean("longer sequences", "as trained", 64)
    at_1024 = {state: published_mean("longer sequences", state, 1024) for state in SWITCHES}
    repaired = [state for state, bits in at_1024.items() if bits <= trained]
    assert repaired == ["angles stop and far brake"]


def test_page_states_how_far_every_claim_reaches_with_a_dot_for_every_verdict(page: str) -> None:
    verdicts = study.verdict_table(study.published_results(by_block=True)).dropna(subset="low")
    for row in study.reach_table(verdicts).itertuples():
        assert f"<strong>{escape(row.reach)}</strong>" in page
        assert f"<span>{escape(row.text)}" in page
    for row in verdicts.itertuples():
        assert f"<title>{escape(f'{row.setting}: {row.verdict}, {row.numbers}')}</title>" in page


def test_script_of_the_page_has_no_modules_which_browsers_refuse_from_files() -> None:
    script = build.script("model.js", "worker.js", "page.js")
    assert not re.search(r"^(import|export) ", script, re.M)


def test_a_picture_has_the_colors_of_its_weights_with_the_first_query_on_top() -> None:
    weights = np.array([[0, 0.25, 0.5], [0.75, 1, 0]], dtype=np.float32)
    pixels = np.asarray(image(build._picture(weights)).convert("RGB"))
    assert pixels.shape == (2, 3, 3)  # rows, columns, channels
    # The five colors of the scale, from 0 to 1: white to dark brown
    colors = [(255, 255, 255), (248, 207, 160), (232, 151, 74), (184, 86, 15), (94, 36, 3)]
    np.testing.assert_allclose(pixels.reshape(-1, 3)[:5], colors, atol=1)


def test_the_dots_of_a_claim_are_within_the_axis_and_marked_where_they_decide() -> None:
    verdicts = pd.DataFrame(
        {
            "setting": ["main", "AdamW", "steps"],
            "factor": ["", "optimizer", "steps"],
            "slopes": "official",
            "verdict": ["seen here", "not seen here", "can't tell"],
            "numbers": ["+0.1", "-8", "unknown"],
            "margin": [0.1, -8.0, np.nan],
            "low": [0.0, -8.0, np.nan],
            "high": [0.2, -7.0, np.nan],
        }
    )
    words = {"text": "It does.", "reach": "hangs on the optimizer", "exceptions": "AdamW"}
    claim = build._claim(pd.Series({**words, "hangs_on": ("optimizer",)}), verdicts)
    main, adamw = claim.pop("dots")
    assert claim == words
    assert main == {
        "x": pytest.approx(17.37),
        "low": 0,
        "high": pytest.approx(28.44),
        "decides": False,
        "title": "main: seen here, +0.1",
    }
    assert (adamw["x"], adamw["decides"]) == (-100, True)
