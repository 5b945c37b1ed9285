"""Does a tale still know whom it is about? Models continue one, and we count the names."""

import html
import re
from collections.abc import Mapping
from typing import NamedTuple

import torch

from alibi_viz.arguments import check_instance
from alibi_viz.data.tales import mentions
from alibi_viz.data.text import Text, load_text
from alibi_viz.lessons.text_panels import SideBySide, side_by_side
from alibi_viz.measure.losses import evaluating
from alibi_viz.models import LanguageModel

# The first two sentences of the validation part of the tales. They introduce Emma and Leo.
OPENING = re.compile(r"[^.]*\.[^.]*\.")
LETTERS = 220  # that are written: few tales end before
TALES = 8  # the names of a single one are too few to count
TEMPERATURE = 0.4  # as in `lab.continuations`


class ToldTales(NamedTuple):
    """What a model made of the opening of a tale.

    Attributes:
        opening: the two sentences that were given.
        tales: eight continuations, each up to the end of the tale.
        names: all names in them.
        known: how many of these the opening told.
    """

    opening: str
    tales: list[str]
    names: list[str]
    known: int

    @property
    def verdict(self) -> str:
        """How many of the names are those of the opening.

        >>> told = ToldTales("Emma met Leo.", ["Emma sang."], ["Emma"], known=1)
        >>> told.verdict
        '1 of 1 names is Emma or Leo'
        """
        first, second = list(dict.fromkeys(names_in(self.opening)))
        verb = "is" if self.known == 1 else "are"
        return f"{self.known} of {len(self.names)} names {verb} {first} or {second}"


def names_in(passage: str) -> list[str]:
    """The names of persons in a passage of the tales, in its order.

    >>> names_in("Emma met Leo the goat. Emma sang.")
    ['Emma', 'Leo', 'Emma']
    """
    return [mention.value for mention in mentions(passage) if mention.kind == "name"]


def tell_tales(model: LanguageModel, text: Text) -> ToldTales:
    """Let a model continue the tale of Emma and Leo eight times.

    Equal models give equal tales on one machine.
    """
    validation = bytes(text.validation.tolist()).decode()
    match = OPENING.match(validation)
    if match is None or len(set(names_in(match.group()))) != 2:
        raise ValueError(f"{text.name} doesn't begin with two sentences that name two persons")
    opening = match.group()

    with evaluating(model) as device:
        prompt = torch.tensor(list(opening.encode()), device=device).expand(TALES, -1)
        generator = torch.Generator(device).manual_seed(0)
        written = model.generate(prompt, LETTERS, temperature=TEMPERATURE, generator=generator)

    tales = []
    names = []
    for tokens in written[:, len(opening) :].tolist():
        continuation = bytes(tokens).decode("utf-8", "replace")
        # An empty line ends a tale, and the next one is about somebody else.
        tale = continuation.partition("\n\n")[0]
        tales.append(tale)
        names += names_in(tale)
    told = set(names_in(opening))
    known = sum(name in told for name in names)
    return ToldTales(opening, tales, names, known)


def know_emma(models: Mapping[str, LanguageModel]) -> SideBySide:
    """Show how models continue the tale of Emma and Leo, and whether they still know the two.

    Each model writes eight tales of 220 letters. The first is shown. Above it stands how many of
    the names in all eight are Emma or Leo: a model that remembers neither names them by chance, 2
    of 16 times.

    Args:
        models: {what is shown above its tale: a model of bytes}.

    Raises:
        TypeError: `models` isn't a mapping of names to models.

    >>> from alibi_viz import lessons, study
    >>> lessons.know_emma({"alibi": study.published_model("alibi").model})
    ... # doctest: +ELLIPSIS
    alibi: ... of ... names are Emma or Leo
    This is the story of Emma, a proud donkey from the harbor. Next door lived Leo the goat, ...
    """
    check_instance("models", models, Mapping)
    text = load_text()
    panels = {}
    for name, model in models.items():
        check_instance(f"models[{name!r}]", model, LanguageModel)
        told = tell_tales(model, text)
        panels[f"{name}: {told.verdict}"] = (told.opening, told.tales[0])

    page = side_by_side(panels).page
    for name in ("Emma", "Leo"):
        page = page.replace(name, f"<b>{html.escape(name)}</b>")
    lines = [f"{title}\n{opening}{tale}" for title, (opening, tale) in panels.items()]
    return SideBySide(page, "\n\n".join(lines))
