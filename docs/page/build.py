"""Build the page, index.html: it needs no network, no server and no kernel."""

import base64
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import torch
from numpy.typing import NDArray

from alibi_viz import lab, lessons, study
from alibi_viz.bias import alibi_bias, mask_future
from alibi_viz.check import FAULTS
from alibi_viz.data.tales import write_tales
from alibi_viz.figures.far_share_plot import far_share_points
from alibi_viz.figures.png import png_source
from alibi_viz.figures.theme import WEIGHT_SCALE
from alibi_viz.files import write
from alibi_viz.formatting import format_slope
from alibi_viz.lessons.bugs import Bug
from alibi_viz.measure.continuations import LONG_WORD, TEMPERATURE
from alibi_viz.models import LanguageModel
from alibi_viz.slopes import alibi_slopes
from alibi_viz.study.far_keys import BRAKES, LONGEST, NEVER, STOPS
from docs.page.claims import claim_groups
from docs.page.lesson_cards import lesson_cards

HERE = Path(__file__).parent
PROJECT = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# The addresses of the public repository and of the page, as soon as there are any. The page links
# the first. A link to the second shows a card with the page's title and moving picture.
REPOSITORY = PROJECT["urls"].get("Source", "")
ADDRESS = PROJECT["urls"].get("Documentation", "").rstrip("/")
BEGINNING = "This is the story of Emma, a "
# The longest of the page: by then, the rotary model has lost its words, too.
BYTES = 448
MODELS = {"alibi": "ALiBi", "rotary": "rotary", "sinusoidal": "sinusoidal"}
# The scripts of the page, in an order in which each uses only what stands before it.
SCRIPTS = (
    "model.js",
    "worker.js",
    "tools.js",
    "text.js",
    "address.js",
    "write.js",
    "marathon.js",
    "heads.js",
    "plot.js",
    "train.js",
    "quiz.js",
    "card.js",
    "page.js",
)
# Of the race in the page: half a minute of training is enough, because it is small and its
# tales are easy to learn.
RACE: dict[str, Any] = {"length": 32, "batch": 16, "steps": 500, "rate": 5e-2}
RACE_MODEL = {"layers": 1, "width": 32, "heads": 4}
VARIETY, TRAINING, VALIDATION = 4, 250_000, 12_000  # of these tales: see `write_tales`, and bytes
# Three of the bugs of lesson 7: one of the sign, one of the heads, one of the cache
QUIZ = ("case 1", "case 4", "case 10")
_NUM_ANSWERS = 3
_MASKED = 255  # the place of the transparent color in the palette of a picture


def build_page(folder: str | Path) -> Path:
    """Write index.html into a folder, and return its path.

    The page links the lessons, the report and the reference that `make docs` writes beside it.
    Raises OSError if the folder cannot be written.
    """
    environment = jinja2.Environment(
        autoescape=True,
        loader=jinja2.FileSystemLoader(HERE),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = environment.get_template("index.html.j2").render(**_content())
    path = Path(folder) / "index.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, text)
    return path


def page_data() -> dict[str, Any]:
    """What the page computes with, as JSON: models, words, colors, and the texts of the race."""
    training, validation = (
        write_tales(size, seed, VARIETY)[0] for size, seed in ((TRAINING, 1), (VALIDATION, 2))
    )
    race = {
        "characters": "".join(sorted(set(training))),
        "training": training,
        "validation": validation,
        "yardsticks": _yardsticks(training, validation),
    }
    return {
        "models": {name: _packed(study.published_model(name).model) for name in MODELS},
        "length": lab.Run.length,
        "words": sorted(set(LONG_WORD.findall(bytes(lab.load_text().train.tolist()).decode()))),
        "race": {**race, "config": RACE_MODEL, "settings": RACE},
        "colors": _hexadecimal(WEIGHT_SCALE.palette),
    }


def _hexadecimal(palette: NDArray[np.uint8]) -> list[str]:
    """The colors of a palette, [colors, 3], as CSS writes them."""
    return [f"#{bytes(color.tolist()).hex()}" for color in palette]


def _yardsticks(training: str, validation: str) -> dict[str, float]:
    """What the race's text costs models that only count, {name: bits per byte}."""
    train, held_out = (
        torch.frombuffer(bytearray(part.encode()), dtype=torch.uint8)
        for part in (training, validation)
    )
    return lab.Text("tales", train, held_out).yardsticks


def _packed(model: LanguageModel) -> dict[str, Any]:
    """The settings of a model, and its weights in half precision, in the order of its state
    dict."""
    names = {"layers": "num_layers", "width": "d_model", "heads": "num_heads"}
    config = {name: getattr(model.config, field) for name, field in names.items()}
    config |= {"vocabulary": model.config.vocabulary, "position": model.config.position}
    weights = (
        torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).half().numpy()
    )
    return {"config": config, "weights": base64.b64encode(weights.astype("<f2").tobytes()).decode()}


def _picture(weights: NDArray[np.float32], masked: NDArray[np.bool_]) -> str:
    """Weights from 0 to 1, [query, key], as an image with a pixel for each.

    Masked cells are transparent.
    """
    pixels = WEIGHT_SCALE.indices(weights.copy())
    pixels[masked] = _MASKED
    palette = WEIGHT_SCALE.palette.tobytes()
    return png_source(pixels, palette.ljust(3 * (_MASKED + 1), b"\0"), transparency=_MASKED)


def _future(rows: int, keys: int) -> NDArray[np.bool_]:
    """Which keys are after the query of each row; the rows are the last positions of the keys."""
    query = np.arange(keys - rows, keys)[:, None]
    return np.arange(keys) > query


def _written(model: LanguageModel) -> str:
    """A text for readers without JavaScript."""
    tokens = torch.tensor([list(BEGINNING.encode())])
    text = model.eval().generate(
        tokens, BYTES, temperature=TEMPERATURE, generator=torch.Generator().manual_seed(1)
    )
    return bytes(text[0].tolist()).decode(errors="replace")


def _content() -> dict[str, Any]:
    results = study.published_results(by_block=True)
    verdicts = study.verdict_table(results)
    groups = claim_groups(verdicts, study.reach_table(verdicts))
    data = json.dumps(page_data())
    return {
        "data": data.replace("</", r"<\/"),  # "</script>" in a text must not end the element
        "worker": script("model.js", "worker.js"),
        "script": f"(() => {{{script(*SCRIPTS)}}})();",
        "repository": REPOSITORY,
        "address": ADDRESS,
        "length": lab.Run.length,
        "race_length": RACE["length"],
        "beginning": BEGINNING,
        "bytes": BYTES,
        "model_heads": study.published_model("alibi").model.config.num_heads,
        "written": {name: _written(study.published_model(name).model) for name in MODELS},
        "lanes": [(name, MODELS[name]) for name in ("alibi", "sinusoidal")],
        "runs": results.groupby(["setting", "label", "seed"]).ngroups,
        "settings": results["setting"].nunique(),
        "groups": groups,
        "num_claims": sum(len(group.claims) for group in groups),
        "color_bar": ", ".join(_hexadecimal(WEIGHT_SCALE.palette[::18])),
        "heads": [
            _picture(weights, _future(32, 32))
            for weights in mask_future(alibi_bias(alibi_slopes(8), 32)).exp().numpy()
        ],
        "far_share": _far_share(),
        "cases": [_case(lessons.BUGS[name]) for name in QUIZ],
        "num_bugs": len(lessons.BUGS),
        "lessons": lesson_cards(),
    }


def _case(bug: Bug) -> dict[str, Any]:
    """A question of the quiz: two pictures, three answers, and what is said after each."""
    correct = bug.view.correct(bug.causal).numpy()
    weights = bug.weights().numpy()
    masked = np.zeros(weights.shape, dtype=bool)
    if bug.view.head is not None and bug.causal:
        masked = _future(*weights.shape)

    wrong_answers = [answer for answer in bug.answers if answer != bug.fault]
    offered = {bug.fault, *wrong_answers[: _NUM_ANSWERS - 1]}
    rows = "queries" if bug.view.head else "heads"
    return {
        "name": bug.name,
        "rows": f"rows: {rows}, columns: keys",
        "correct": _picture(correct, masked & (correct == 0)),
        "wrong": _picture(weights, masked & (weights == 0)),
        "answers": [answer for answer in bug.answers if answer in offered],
        "fault": bug.fault,
        "problem": FAULTS[bug.fault].problem,
        "source": bug.exhibit.system,
        "tables": [_table(bug, "correct", correct), _table(bug, "this one", weights)],
    }


def _table(bug: Bug, title: str, weights: NDArray[np.float32]) -> dict[str, Any]:
    """The numbers of a picture: percent of the largest weight of a row."""
    return {
        "title": title,
        "corner": "query" if bug.view.head else "head",
        "columns": list(bug.view.keys),
        "rows": [
            (row, [f"{weight:.0%}" for weight in row_weights])
            for row, row_weights in zip(bug.view.rows, weights, strict=True)
        ],
    }


def _far_share() -> dict[str, Any]:
    """What far keys get in the rotary models with one of two changes, and what this costs."""
    points, window = far_share_points(study.far_keys())
    stops = [(f"{stop}" if stop < NEVER else "never", (stop, 0.0)) for stop in STOPS]
    brakes = [(format_slope(brake) if brake else "none", (NEVER, brake)) for brake in BRAKES]
    tables = []
    for name, settings in (("angles stop at", stops), ("brake", brakes)):
        rows = []
        for text, setting in settings:
            far_share, bits = points[setting].mean(axis=0)
            rows.append({"setting": text, "far_share": f"{far_share:.0%}", "bits": f"{bits:.2f}"})
        tables.append({"name": name, "rows": rows})
    yardsticks = lab.load_text().yardsticks
    return {
        "tables": tables,
        "longest": LONGEST,
        "window": f"{window:.2f}",
        "models": len(points[NEVER, 0.0]),
        "letters": f"{yardsticks['letter frequencies']:.1f}",
        "pairs": f"{yardsticks['letter pairs']:.1f}",
    }


def script(*names: str) -> str:
    """The modules as one classic script: browsers load no modules from files."""
    texts = ((HERE / name).read_text(encoding="utf-8") for name in names)
    return "\n".join(
        re.sub(r"^import .*?;\n|^export ", "", text, flags=re.MULTILINE) for text in texts
    )
