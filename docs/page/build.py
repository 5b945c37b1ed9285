"""Build the page, index.html: it needs no network, no server and no kernel."""

import base64
import json
import math
import re
from pathlib import Path
from typing import Any

import jinja2
import nbformat
import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from alibi_viz import lab, lessons, study
from alibi_viz.bias import alibi_bias, mask_future
from alibi_viz.data.tales import write_tales
from alibi_viz.figures.claims_plot import deciding_factor
from alibi_viz.figures.png import png_source
from alibi_viz.figures.switches_plot import CELLS, switch_outcomes, tint
from alibi_viz.files import write
from alibi_viz.lessons.copies import lessons_folder
from alibi_viz.measure.continuations import LONG_WORD, TEMPERATURE
from alibi_viz.measure.table import AS_TRAINED
from alibi_viz.models import LanguageModel
from alibi_viz.slopes import alibi_slopes

HERE = Path(__file__).parent
BEGINNING = "This is the story of Emma, a "
MODELS = {"alibi": "ALiBi", "rotary": "rotary", "sinusoidal": "sinusoidal"}
# Of the race in the page: half a minute of training is enough, because it is small and its
# tales are easy to learn.
RACE: dict[str, Any] = {"length": 32, "batch": 16, "steps": 500, "rate": 5e-2}
RACE_MODEL = {"layers": 1, "width": 32, "heads": 4}
VARIETY, TRAINING, VALIDATION = 4, 250_000, 12_000  # of these tales: see `write_tales`, and bytes
COLORS = ("#FFFFFF", "#F8CFA0", "#E8974A", "#B8560F", "#5E2403")  # of the heatmaps, from 0 to 1


def build_page(folder: str | Path) -> Path:
    """Write index.html into a folder, and return its path.

    The page links the lessons, the report and the reference that `make docs` writes beside it.
    Raises OSError if the folder cannot be written.
    """
    environment = jinja2.Environment(autoescape=True, loader=jinja2.FileSystemLoader(HERE))
    text = environment.get_template("index.html.j2").render(**_content(), lessons=_lessons())
    path = Path(folder) / "index.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, text)
    return path


def _lessons() -> list[dict[str, str]]:
    """The file names and titles of the lessons."""
    lessons = []
    for path in sorted(lessons_folder().glob("*.ipynb")):
        heading = nbformat.read(path, as_version=4).cells[0].source.splitlines()[0]
        title = re.sub(r"^# (\d+\. )?", "", heading)
        lessons.append({"name": path.stem, "title": title})
    return lessons


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
        "colors": COLORS,
    }


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


def _picture(weights: NDArray[np.float32]) -> str:
    """Weights from 0 to 1, [query, key], as an image with a pixel for each."""
    stops = np.array([[int(color[at : at + 2], 16) for at in (1, 3, 5)] for color in COLORS])
    shades = np.linspace(0, len(COLORS) - 1, 256)
    palette = np.stack(
        [np.interp(shades, range(len(COLORS)), stops[:, channel]) for channel in range(3)], axis=1
    )
    return png_source(
        np.rint(255 * weights).astype(np.uint8), np.rint(palette).astype(np.uint8).tobytes()
    )


def _written(model: LanguageModel) -> str:
    """A text for readers without JavaScript."""
    tokens = torch.tensor([list(BEGINNING.encode())])
    text = model.eval().generate(
        tokens, 256, temperature=TEMPERATURE, generator=torch.Generator().manual_seed(1)
    )
    return bytes(text[0].tolist()).decode(errors="replace")


def _content() -> dict[str, Any]:
    results = study.published_results(by_block=True)
    verdicts = study.verdict_table(results)
    reach = study.reach_table(verdicts)
    bugs = []
    for bug in lessons.BUGS.values():
        weights, exhibit = bug.weights().numpy(), bug.exhibit
        what = {
            "name": bug.name,
            "fault": bug.fault,
            "summary": exhibit.effect,
            "source": exhibit.system,
        }
        what["trained"] = " and ".join(exhibit.trained)
        bugs.append(
            {**what, "view": bug.view, "picture": _picture(weights), "weights": weights.tolist()}
        )
    return {
        "data": json.dumps(page_data()).replace(
            "</", r"<\/"
        ),  # "</script>" in a text must not end the element
        "worker": script("model.js", "worker.js"),
        "script": f"(() => {{{script('model.js', 'worker.js', 'page.js')}}})();",
        "length": lab.Run.length,
        "race_length": RACE["length"],
        "beginning": BEGINNING,
        "model_heads": study.published_model("alibi").model.config.num_heads,
        "models": [
            (name, title, _written(study.published_model(name).model))
            for name, title in MODELS.items()
        ],
        "lanes": [(name, MODELS[name]) for name in ("alibi", "sinusoidal")],
        "runs": results.groupby(["setting", "label", "seed"]).ngroups,
        "settings": results["setting"].nunique(),
        "factors": [factor for factor in verdicts["factor"].unique() if factor],
        "claims": [
            _claim(row, verdicts[verdicts["claim"] == row["claim"]]) for _, row in reach.iterrows()
        ],
        "heads": [
            _picture(weights)
            for weights in mask_future(alibi_bias(alibi_slopes(8), 32)).exp().numpy()
        ],
        "switches": _switches(results),
        "bugs": bugs,
    }


def _switches(results: pd.DataFrame) -> dict[str, Any]:
    """The four losses of the rotary models with two switches, as rows of cells."""
    is_rotary = (results["setting"] == "main") & (results["label"] == "rotary")
    outcomes = switch_outcomes(results[is_rotary])
    trained = outcomes[AS_TRAINED]

    rows: list[list[dict[str, str]]] = [[], []]
    for state, cell in CELLS.items():
        outcome = outcomes[state]
        bits = f"{outcome.bits:.2f}"
        far_share = f"{outcome.far_share:.0%}"
        angles_stop = cell.row == 1
        far_brake = cell.column == 1
        rows[cell.row].append(
            {
                # As the page knows it: whether each of its boxes is checked
                "state": f"{angles_stop} {far_brake}".lower(),
                "trouble": cell.trouble,
                "bits": bits,
                "far_share": far_share,
                "color": tint(outcome.bits),
                "words": (
                    f"{cell.short_name.capitalize()}: {bits} bits per byte, and far keys get "
                    f"{far_share} of the attention."
                ),
            }
        )
    yardsticks = lab.load_text().yardsticks
    return {
        "rows": rows,
        "longest": trained.longest,
        "trained": f"{trained.losses[min(trained.losses)]:.2f}",
        "seeds": trained.seeds,
        "yardsticks": [(name, f"{bits:.1f}") for name, bits in yardsticks.items()],
    }


def _claim(reach: pd.Series, verdicts: pd.DataFrame) -> dict[str, Any]:
    """A claim with its dots, one for each setting, on an axis from -100 to 100 that shrinks large
    distances."""
    dots = []
    for row in verdicts.dropna(subset="low").itertuples():
        dots.append(
            {
                "x": _place(row.margin),
                "low": _place(row.low),
                "high": _place(row.high),
                "decides": bool(deciding_factor(row, reach["hangs_on"])),
                "title": f"{row.setting}: {row.verdict}, {row.numbers}",
            }
        )
    return {
        "text": reach["text"],
        "reach": reach["reach"],
        "exceptions": reach["exceptions"],
        "dots": dots,
    }


def _place(margin: float) -> float:
    """Where a margin is on the axis of the claims."""
    return round(100 * math.asinh(10 * margin) / math.asinh(80), 2)


def script(*names: str) -> str:
    """The modules as one classic script: browsers load no modules from files."""
    texts = ((HERE / name).read_text(encoding="utf-8") for name in names)
    return "\n".join(
        re.sub(r"^import .*?;\n|^export ", "", text, flags=re.MULTILINE) for text in texts
    )
