"""How well heads hear a name: where content is equal, and in a model that has learned to."""

import pytest
import torch

import alibi_viz as av
from alibi_viz import lab, study
from alibi_viz.measure.attention_statistics import NAME_CONTEXT, name_leads
from tests.measure.test_questions import equal_content


@pytest.fixture(scope="module")
def text():
    return lab.load_text()


@pytest.fixture(scope="module")
def names(text):
    """Names that were last told about 100 letters ago."""
    facts = text.facts.query("kind in ('hero', 'friend') and start >= 256")
    return facts[facts.distance.between(80, 120)]


def test_at_equal_content_no_name_leads_and_distance_alone_decides_on_its_share(text, names):
    name = names[:1]
    leads = name_leads(equal_content("alibi"), text, name)
    assert leads["layer"].tolist() == [1] * 4 + [2] * 4
    assert leads["lead"].tolist() == pytest.approx([0.0] * 8)

    steps_back = torch.arange(NAME_CONTEXT)
    weights = (-av.alibi_slopes(4)[:, None] * steps_back).softmax(-1)
    farthest = int(name["start"].item() - name["told"].item() - 1)  # the first letter of the name
    length = int(name["stop"].item() - name["start"].item())
    shares = weights[:, farthest - length + 1 : farthest + 1].sum(-1).tolist()
    assert leads["share"].tolist() == pytest.approx(shares * 2, rel=1e-4)


def test_two_heads_of_the_larger_model_have_learned_to_hear_names(text, names):
    leads = name_leads(study.published_model("alibi-large").model, text, names[:100])
    best = leads.nlargest(2, "lead")
    assert best[["layer", "head"]].to_numpy().tolist() == [[4, 6], [4, 7]]
    assert best["share"].min() > 0.25
    assert leads["lead"].nlargest(3).iloc[-1] < 2


def test_a_model_with_other_positions_is_refused(text, names):
    with pytest.raises(ValueError, match="position 'alibi', got 'rotary'"):
        name_leads(lab.make_model("rotary"), text, names)
