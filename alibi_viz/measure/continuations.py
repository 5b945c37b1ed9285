"""Let a language model continue a text beyond its training length, and count the words it spells.

A loss says how well a model predicts. A continuation shows it: beyond the training length, some
models go on telling a tale and others write random letters.
"""

import math
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import torch

from alibi_viz import arguments
from alibi_viz.data.text import Text, check_long_enough
from alibi_viz.measure.losses import evaluating
from alibi_viz.models import LanguageModel

# The words of a single continuation are too few to count.
CONTINUATIONS = 8
# Small models repeat themselves at 0, and misspell most words at 1.
TEMPERATURE = 0.4
# Of a prompt with its continuation. A model without a cache reads all of it for each new byte.
MOST_BYTES = 256
# Three or more letters between other characters. Shorter words also occur in random letters.
LONG_WORD = re.compile(r"(?<=[\W\d_])[^\W\d_]{3,}(?=[\W\d_])")


class Continuation(NamedTuple):
    """What a model wrote after a prompt, in three parts.

    Bytes that are not UTF-8 are shown as U+FFFD.
    """

    prompt: str  # the start of the validation text, half as long as the training sequences
    within: str  # what the model wrote up to its training length
    beyond: str  # what it wrote after that; empty if its positions are not defined there


def continuations(
    model: LanguageModel, text: Text, length: int, *, seed: int = 0, most: int = MOST_BYTES
) -> list[Continuation]:
    """Eight continuations of the first `length // 2` bytes of the validation text.

    They are sampled at temperature 0.4 and end after `8 * length` bytes, but at the latest after
    `most` bytes, 256 by default, or twice the length, whichever is more. Equal seeds give equal
    texts on one machine. `length` is the training length in bytes, at least 2. Raises ValueError if
    the validation part is shorter than the prompt.

    >>> from alibi_viz import lab
    >>> texts = lab.continuations(lab.make_model("alibi"), lab.load_text(), 64)
    >>> len(texts), texts[0].prompt
    (8, 'This is the story of Emma, a pro')
    """
    arguments.check_instance("model", model, LanguageModel)
    arguments.check_instance("text", text, Text)
    arguments.check_integer("length", length, 2)
    seed = arguments.check_seed(seed)
    arguments.check_positive_integers(most=most)

    end = max(2 * length, min(8 * length, most))
    if not model.is_defined_at(end):
        end = length

    prompt_length = length // 2
    check_long_enough(text, prompt_length, f"for a prompt of {prompt_length:,} bytes")
    prompt = text.validation[:prompt_length]

    with evaluating(model) as device:
        prompts = prompt.long().to(device).expand(CONTINUATIONS, -1)
        generator = torch.Generator(device).manual_seed(seed)
        written = model.generate(
            prompts, end - prompt_length, temperature=TEMPERATURE, generator=generator
        )
    return [
        Continuation(
            prompt=_decode(tokens[:prompt_length]),
            within=_decode(tokens[prompt_length:length]),
            beyond=_decode(tokens[length:]),
        )
        for tokens in written.tolist()
    ]


def known_words(passages: Iterable[str], text: Text) -> float:
    """The share of words in the passages that occur in the training part of the text.

    A word is three or more letters between other characters, so words cut by the ends of a passage
    don't count. NaN if there are no words.
    """
    arguments.check_instance("text", text, Text)
    passages = arguments.as_list("passages", passages, "strings", str)
    known = _words_of(text)

    words: list[str] = []
    for passage in passages:
        words.extend(LONG_WORD.findall(passage))
    if not words:
        return math.nan
    return sum(word in known for word in words) / len(words)


def unknown_words(passage: str, text: Text) -> list[tuple[int, int]]:
    """Where the words of a passage are, (start, end), that `known_words` doesn't count as known."""
    known = _words_of(text)
    return [match.span() for match in LONG_WORD.finditer(passage) if match[0] not in known]


@lru_cache(maxsize=4)
def _words_of(text: Text) -> frozenset[str]:
    """The words in the training part of a text. A race asks for them after each test."""
    return frozenset(LONG_WORD.findall(_decode(text.train.tolist())))


def _decode(data: list[int]) -> str:
    return bytes(data).decode("utf-8", "replace")
