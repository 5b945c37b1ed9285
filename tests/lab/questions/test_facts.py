"""Facts of the tales: how many bits a model saves by having been told."""

import pytest
import torch

from alibi_viz import LanguageModel, TransformerConfig, lab, study
from alibi_viz.lab.questions.facts import memory_bits


class Copier(LanguageModel):
    """Knows by heart what a context has told: it gives 1 bit to a byte that continues the context, 8 to others."""

    def __init__(self, memory: int) -> None:
        super().__init__(TransformerConfig(num_layers=1, d_model=8, num_heads=1))
        self.memory = memory

    def forward(self, tokens, cache=None, *, last=None):  # type: ignore[no-untyped-def]
        last = last or tokens.shape[1]
        logits = torch.zeros(len(tokens), last, 256)
        for row, window in enumerate(tokens.tolist()):
            for index in range(last):
                end = len(window) - last + index + 1
                seen, tail = bytes(window[max(0, end - self.memory) : end]), bytes(window[end - 2 : end])
                before = seen.rfind(tail, 0, len(seen) - 1)
                if before >= 0 and before + 2 < len(seen):
                    logits[row, index, seen[before + 2]] = 20.0
        return logits


@pytest.fixture(scope="module")
def text() -> lab.Text:
    return lab.tales_text(2_000, 30_000, seed=3)


def test_a_model_without_memory_saves_nothing(text):
    facts = text.facts.query("stop > 400")[:20]
    assert memory_bits(Copier(memory=2), text, facts, 256).abs().max() == 0


def test_bits_are_saved_only_by_facts_within_the_memory(text):
    facts = text.facts.query("stop > 600 and kind == 'thing' and distance < 400")
    near, far = facts.query("distance < 60")[:8], facts.query("distance > 200")[:8]
    model = Copier(memory=100)
    assert len(near) and len(far)
    assert memory_bits(model, text, near, 500).mean() > 1
    assert memory_bits(model, text, far, 500).mean() < 0.5


def test_answers_are_by_bins_of_distances_up_to_the_longest_window(text):
    question = lab.find_question("facts")
    answers = list(question.measure(lab.make_model("none"), text, 64, longest=4))
    assert [answer.x for answer in answers] == [23, 45, 91, 181]
    assert all(0 < answer.samples <= 64 for answer in answers)


def test_a_text_without_facts_has_no_answers_and_says_so(text):
    question = lab.find_question("facts")
    assert list(question.measure(lab.make_model("none"), lab.load_text("to be or not to be " * 500), 64)) == []
    empty = study.published_results().head(0)
    assert question.findings(empty, 64) == ["This text has no recorded facts; the tales have."]
