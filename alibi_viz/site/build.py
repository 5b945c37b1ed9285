"""Build the page: `make site` writes one folder, whose index.html needs no network, no server and no kernel."""

import base64
import json
import math
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import nbformat
import pandas as pd
from nbconvert import HTMLExporter
from torch import Tensor, cat, float16

from alibi_viz import lab, lessons, study
from alibi_viz.lab.evaluation import WORD
from alibi_viz.lab.tales import write_tales
from alibi_viz.lessons.copies import lessons_folder
from alibi_viz.models import LanguageModel

BEGINNING = "This is the story of Emma, a "
MODELS = {"alibi": "ALiBi", "rotary": "rotary", "sinusoidal": "sinusoidal"}
# Of the race in the page: half a minute of training is enough, because it is small and its tales are easy to learn.
RACE: dict[str, Any] = {"length": 32, "batch": 16, "steps": 900, "rate": 2e-2}
RACE_MODEL = {"layers": 1, "width": 32, "heads": 4}
VARIETY, TRAINING, VALIDATION = 4, 250_000, 12_000  # of these tales: see `write_tales`, and bytes


def build_site(out: str | Path) -> Path:
    """Write index.html and the lessons into the folder `out`, and return the path of index.html.

    Raises OSError if the folder cannot be written.
    """
    folder = Path(out)
    (folder / "lessons").mkdir(parents=True, exist_ok=True)
    pages = [_write_lesson(path, folder / "lessons") for path in sorted(lessons_folder().glob("*.ipynb"))]
    page = folder / "index.html"
    page.write_text(_template().render(**_content(), lessons=pages), encoding="utf-8")
    return page


def page_data() -> dict[str, Any]:
    """What the page computes with, as JSON: models, words, the texts of the race, and pictures of the bugs."""
    training, validation = (write_tales(size, seed, VARIETY)[0] for size, seed in ((TRAINING, 1), (VALIDATION, 2)))
    race = {"characters": "".join(sorted(set(training))), "training": training, "validation": validation}
    models = {name: _packed(study.published_model(name).model) for name in MODELS}
    text = lab.load_text()
    words = sorted(set(WORD.findall(bytes(text.train.tolist()).decode())))
    bugs = [_causal_rows(bug.weights()) for bug in lessons.BUGS.values()]
    return {
        "models": models,
        "length": lab.Run.length,
        "words": words,
        "race": {**race, "config": RACE_MODEL, "settings": RACE},
        "bugs": bugs,
    }


def _packed(model: LanguageModel) -> dict[str, Any]:
    """The settings of a model, and its weights in half precision, in the order of its state dict."""
    config = model.config
    weights = cat([parameter.detach().flatten() for parameter in model.parameters()]).to(float16).numpy()
    return {
        "config": {
            "layers": config.num_layers,
            "width": config.d_model,
            "heads": config.num_heads,
            "vocabulary": config.vocabulary,
            "position": config.position,
        },
        "weights": base64.b64encode(weights.astype("<f2").tobytes()).decode(),
    }


def _causal_rows(weights: Tensor) -> list[list[float]]:
    return [[round(weight, 3) for weight in row] for row in weights.tolist()]


def _content() -> dict[str, Any]:
    results = study.published_results()
    table = study.verdict_table(results)
    bugs = [
        {"name": bug.name, "fault": bug.fault, "summary": bug.exhibit.effect, "source": bug.exhibit.system}
        for bug in lessons.BUGS.values()
    ]
    return {
        "css": _read("page.css"),
        "data": json.dumps(page_data()).replace("</", r"<\/"),  # "</script>" in a text must not end the element
        "worker": script("model.js", "worker.js"),
        "script": f"(() => {{{script('model.js', 'worker.js', 'page.js')}}})();",
        "length": lab.Run.length,
        "race_length": RACE["length"],
        "beginning": BEGINNING,
        "models": list(MODELS.items()),
        "lanes": [(name, MODELS[name]) for name in ("alibi", "sinusoidal")],
        "runs": results.groupby(["task", "label", "seed"]).ngroups,
        "claims": [_claim(row) for _, row in table[table["setting"] == table["setting"].iloc[0]].iterrows()],
        "bugs": bugs,
    }


def _claim(row: pd.Series) -> dict[str, Any]:
    """A row of the forest plot, with its interval on an axis from -100 to 100 that shrinks large distances."""
    margin, low, high = (100 * math.asinh(10 * row[name]) / math.asinh(80) for name in ("margin", "low", "high"))
    drawn = {"x": margin, "low": low, "high": high} if math.isfinite(margin) else {"x": None}
    return {"verdict": row["verdict"], "text": row["text"], "numbers": row["numbers"], **drawn}


def script(*names: str) -> str:
    """The modules as one classic script: browsers load no modules from files."""
    return "\n".join(re.sub(r"^import .*?;\n|^export ", "", _read(name), flags=re.MULTILINE) for name in names)


def _read(name: str) -> str:
    return (files("alibi_viz.site") / name).read_text(encoding="utf-8")


def _template() -> jinja2.Template:
    return jinja2.Environment(autoescape=True).from_string(_read("index.html.j2"))


def _write_lesson(path: Path, folder: Path) -> dict[str, str]:
    """Write a lesson as a page with its stored outputs and pictures; links lead to the other pages."""
    notebook = nbformat.read(path, as_version=4)
    body, _ = HTMLExporter(template_name="lab", exclude_input_prompt=True).from_notebook_node(notebook)
    body = re.sub(r'href="(\w+)\.ipynb', r'href="\1.html', body)
    (folder / f"{path.stem}.html").write_text(body, encoding="utf-8")
    title = re.search(r"^# \d+\. (.+)", notebook.cells[0].source)
    return {"file": f"{path.stem}.html", "title": title[1] if title else path.stem}
