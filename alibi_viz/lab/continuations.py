"""Let a model continue a text beyond its training length, and count how many of its words are known."""

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import torch

from alibi_viz.arguments import as_list, check_instance, check_integer, check_seed
from alibi_viz.lab.evaluation import evaluating
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel

SAMPLES = 8  # the words of a single text are too few to count
TEMPERATURE = 0.4  # small models repeat themselves at 0, and misspell most words at 1
LONGEST = 256  # bytes, because a model without a cache reads the whole text again for each new byte
WORD = re.compile(r"(?<=[\W\d_])[^\W\d_]{3,}(?=[\W\d_])")  # shorter words also occur in random letters


class Continuation(NamedTuple):
    """What a model wrote after a prompt, in three parts. Bytes that are not UTF-8 are shown as U+FFFD.

    Attributes:
        prompt: the start of the validation text, half as long as the training windows.
        within: what the model wrote up to its training length.
        beyond: what it wrote after that; empty if its positions are not defined there.
    """

    prompt: str
    within: str
    beyond: str


def continuations(model: LanguageModel, text: Text, length: int, *, seed: int = 0) -> list[Continuation]:
    """Eight continuations of the first `length // 2` bytes of the validation text, sampled at temperature 0.4.

    They end after `8 * length` bytes, but at the latest after 256 bytes or twice the length, whichever is more.

    Args:
        model: a model with a vocabulary of 256.
        text: whose validation part gives the prompt.
        length: the training length of the model in bytes, at least 2.
        seed: of the sampling. Equal seeds give equal texts on one machine; rounding errors may differ elsewhere.

    Raises TypeError or ValueError if the length is not an integer of at least 2, and ValueError if the validation part
    is shorter than the prompt or the model isn't defined at its training length.

    >>> texts = lab.continuations(lab.make_model("alibi"), lab.load_text(), 64)
    >>> len(texts), texts[0].prompt
    (8, 'This is the story of Emma, a pro')
    """
    check_instance("model", model, LanguageModel)
    check_instance("text", text, Text)
    check_integer("length", length, 2)
    check_seed(seed)
    end = max(2 * length, min(8 * length, LONGEST))
    end = end if model.is_defined_at(end) else length
    prompt = text.validation[: length // 2]
    if len(prompt) < length // 2:
        raise ValueError(
            f"{text.name} is too short for a prompt of {length // 2:,} bytes: its validation part has {len(prompt):,}"
        )
    with evaluating(model) as device:
        tokens = prompt.long().to(device).expand(SAMPLES, -1)
        generator = torch.Generator(device).manual_seed(seed)
        written = model.generate(tokens, end - len(prompt), temperature=TEMPERATURE, generator=generator)
    ends = (0, len(prompt), length, end)
    return [Continuation(*(_decode(row[start:stop]) for start, stop in pairwise(ends))) for row in written.tolist()]


def known_words(passages: Iterable[str], text: Text) -> float:
    """The share of words in the passages that occur in the training part of the text; NaN if there are no words.

    A word is three or more letters between other characters. So words that the ends of a passage cut are not counted.

    >>> from alibi_viz.lab.continuations import known_words
    >>> known_words(["One known and one unknwon word."], lab.load_text("one and\\n\\n one known word \\n\\n" * 20))
    0.8
    """
    check_instance("text", text, Text)
    known = set(WORD.findall(_decode(text.train.tolist())))
    words = [word for passage in as_list("passages", passages, "strings") for word in WORD.findall(passage)]
    return sum(word in known for word in words) / len(words) if words else float("nan")


def _decode(data: list[int]) -> str:
    return bytes(data).decode("utf-8", "replace")
