"""Whether a model that continues a tale still knows Emma and Leo."""

import pytest
import torch

from alibi_viz import lab, lessons
from alibi_viz.lessons.tale_test import LETTERS, TALES, ToldTales, names_in, tell_tales
from alibi_viz.models import LanguageModel
from tests.rows import each_case

OPENING = (
    "This is the story of Emma, a proud donkey from the harbor. Next door lived Leo the goat, "
    "who was shy and always hungry."
)


class Parrot(LanguageModel):
    """A model that ignores what it reads and writes the same words again and again."""

    def __init__(self, words):
        super().__init__(lab.make_model("none").config)
        self.words = words.encode()

    def generate(self, tokens, new_tokens, **options):
        repeated = self.words * (new_tokens // len(self.words) + 1)
        continuation = torch.tensor(list(repeated[:new_tokens])).expand(len(tokens), -1)
        return torch.cat((tokens, continuation), dim=1)


def test_names_in_a_passage_are_those_of_persons():
    assert names_in("Emma the donkey met Leo in the castle. Emma sang.") == ["Emma", "Leo", "Emma"]


def test_models_are_given_the_two_sentences_that_introduce_emma_and_leo():
    assert tell_tales(Parrot("la "), lab.load_text()).opening == OPENING


def test_a_model_writes_eight_tales_of_220_letters():
    tales = tell_tales(Parrot("la "), lab.load_text()).tales
    assert [len(tale) for tale in tales] == [LETTERS] * TALES


def test_the_next_tale_does_not_count():
    told = tell_tales(
        Parrot(" Emma sang.\n\nOnce upon a time a goat met Ida and Kate."), lab.load_text()
    )
    assert set(told.names) == {"Emma"}


@each_case(
    ("words", "known"),
    {
        "the hero": (" Emma sang.", 1.0),
        "the friend": (" Leo sang.", 1.0),
        "somebody else": (" Ida sang.", 0.0),
        "both": (" Emma met Ida.", 0.5),
    },
)
def test_names_of_the_opening_are_counted(words, known):
    told = tell_tales(Parrot(words), lab.load_text())
    assert told.known / len(told.names) == pytest.approx(known, abs=0.02)


def test_a_text_that_is_no_tale_is_refused():
    text = lab.load_text("One sentence. Another sentence. " * 2000)
    with pytest.raises(ValueError, match="doesn't begin with two sentences that name two"):
        tell_tales(Parrot("la "), text)


def test_the_verdict_stands_above_the_first_tale():
    shown = repr(lessons.know_emma({"a parrot": Parrot(" Ida sang.")}))
    title, tale = shown.split("\n", maxsplit=1)
    assert title.startswith("a parrot: 0 of ")
    assert tale.startswith(OPENING + " Ida sang. Ida sang.")


def test_emma_and_leo_are_set_in_bold():
    page = lessons.know_emma({"a parrot": Parrot(" Emma met Ida.")})._repr_html_()
    assert "<b>Emma</b> met Ida" in page


def test_a_tale_without_names_is_counted_as_such():
    assert (
        ToldTales("Emma met Leo.", ["la la"], [], known=0).verdict == "0 of 0 names are Emma or Leo"
    )


def test_only_models_are_asked():
    with pytest.raises(TypeError, match=r"models\['mine'\] must be an instance of LanguageModel"):
        lessons.know_emma({"mine": "alibi"})
