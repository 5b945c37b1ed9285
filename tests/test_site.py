"""The page without a kernel holds the numbers of the library, and every lesson and public name has
a page."""

import base64
import io
import json
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from markupsafe import Markup, escape
from PIL import Image

from alibi_viz import lab, study
from alibi_viz.measure.continuations import WORD
from alibi_viz.site import build
from alibi_viz.site.pages import MODULES


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build.build_site(tmp_path_factory.mktemp("made") / "site").parent


def test_the_page_is_small_and_links_every_lesson_in_order(folder: Path) -> None:
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert len(page) < 2_500_000
    heads = re.findall(
        r'base64,(\S+)" alt="Weights of head \d of 8"', page
    )  # for a page without JavaScript
    assert [Image.open(io.BytesIO(base64.b64decode(head))).size for head in heads] == [(32, 32)] * 8
    stored = re.findall(
        r'model writes"><noscript>(.*?)<span class="beyond">(.*?)</span>', page, re.DOTALL
    )
    assert [[len(Markup(part).unescape()) for part in parts] for parts in stored] == [
        [64, 29 + 256 - 64]
    ] * 3
    assert page.count("<th>key 2047</th>") == 1, "one bug's keys end at 2,048"
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 25_000_000
    pages = sorted(path for path in (folder / "lessons").glob("*.html") if path.stem != "report")
    assert all(
        f'href="lessons/{name}.html"' in page for name in (*(path.stem for path in pages), "report")
    )
    assert '04_a_zoo_of_positions.html">A zoo of positions</a></li>' in page
    for n, path in enumerate(pages):
        text = path.read_text(encoding="utf-8")
        for rel, neighbor in (("prev", pages[:n][-1:]), ("next", pages[n + 1 : n + 2])):
            assert set(re.findall(rf'href="(\S+)" rel="{rel}"', text)) == {
                each.name for each in neighbor
            }
        assert '.ipynb"' not in text, "links go to the pages"
    slopes = pages[1].read_text(encoding="utf-8")
    assert "<title>Results of the study" in (folder / "lessons" / "report.html").read_text(
        encoding="utf-8"
    )
    assert "<details><summary>Code</summary>" in slopes, "the source of a guess contains its answer"
    assert '<h2 id="What-a-slope-does">What a slope does</h2>' in slopes, (
        "where links of lessons lead"
    )
    assert "<details><summary><b>Who uses which rule</b></summary>" in slopes, (
        "tags in lessons are kept"
    )
    assert (
        'aria-label="Formula"><math xmlns="http://www.w3.org/1998/Math/MathML" display="block">'
        in slopes
    )
    assert '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>' in slopes


def test_every_public_name_is_in_the_reference(folder: Path) -> None:
    assert 'href="api/alibi_viz.html"' in (folder / "index.html").read_text(encoding="utf-8")
    for name in MODULES:
        page = (folder / "api" / f"{name.replace('.', '/')}.html").read_text(encoding="utf-8")
        for member in (module := import_module(name)).__all__:
            assert f'id="{member}"' in page, name
            assert (f"<summary>Source of {member}</summary>" in page) == callable(
                getattr(module, member)
            ), member


def test_the_page_computes_with_the_models_words_and_tales_of_the_library(folder: Path) -> None:
    page = (folder / "index.html").read_text(encoding="utf-8")
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    for name, packed in data["models"].items():
        model, weights = (
            study.published_model(name).model,
            np.frombuffer(base64.b64decode(packed["weights"]), "<f2"),
        )
        expected = torch.cat(
            [value.detach().flatten() for value in model.state_dict().values()]
        ).half()
        np.testing.assert_array_equal(weights, expected.numpy())
        assert packed["config"] == {
            "layers": 2,
            "width": 64,
            "heads": 8,
            "vocabulary": 256,
            "position": name,
        }
    assert set(WORD.findall(bytes(lab.load_text().train.tolist()).decode())) == set(data["words"])
    race = data["race"]
    assert set(race["training"]) == set(race["characters"]) >= set(race["validation"])
    assert (
        len(race["training"]) >= build.TRAINING
        and race["validation"][:2000] not in race["training"]
    ), "other tales"
    assert len(data["models"]) == 3 and (race["settings"], race["config"]) == (
        build.RACE,
        build.RACE_MODEL,
    )
    verdicts = study.verdict_table(study.published_results(by_block=True)).query(
        "setting == 'tales'"
    )
    assert all(
        f"<span>{escape(row.text)} <small>{row.numbers}</small></span>" in page
        for row in verdicts.itertuples()
    )
    assert not re.search(
        r"^(import|export) ", build.script("model.js", "worker.js", "page.js"), re.M
    )


def test_a_picture_has_the_colors_of_its_weights_with_the_first_query_on_top() -> None:
    source = build._picture(np.array([[0, 0.25, 0.5], [0.75, 1, 0]], dtype=np.float32))
    pixels = np.asarray(
        Image.open(io.BytesIO(base64.b64decode(source.split(",")[1]))).convert("RGB")
    )
    colors = [[int(color[at : at + 2], 16) for at in (1, 3, 5)] for color in build.COLORS]
    np.testing.assert_allclose(pixels.reshape(-1, 3)[:5], colors, atol=1)
    assert pixels.shape == (2, 3, 3)


def test_a_claim_without_results_has_no_place_and_others_an_interval_within_the_axis() -> None:
    words = {"verdict": "seen here", "text": "It does.", "numbers": "1"}
    shown = build._claim(pd.Series({**words, "margin": 0.1, "low": -8.0, "high": 8.0}))
    assert shown == {**words, "x": pytest.approx(17.366, abs=1e-3), "low": -100, "high": 100}
    assert build._claim(
        pd.Series(words | dict.fromkeys(("margin", "low", "high"), np.nan))
    ) == words | {"x": None}
