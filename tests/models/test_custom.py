"""Your own functions and classes as position methods: named, checked and trained."""

import functools
import math

import pytest
import torch

from alibi_viz import KeyValueCache, LanguageModel, TransformerConfig, alibi_slopes, lab, laws
from alibi_viz.models import Position, SelfAttention
from alibi_viz.models.positions.biases import Alibi
from alibi_viz.models.positions.methods import method_name, named_methods, source_text
from alibi_viz.models.self_attention import attend
from tests.custom_laws import root
from tests.rows import each_case


class PerHead(Position):
    """A learned slope per head."""

    def __init__(self, num_heads):
        super().__init__()
        self.slopes = torch.nn.Parameter(torch.ones(num_heads))

    def bias(self, query_length, key_length, x=None):
        keys = torch.arange(key_length)
        queries = keys[key_length - query_length :]
        steps_back = keys - queries[:, None]
        return self.slopes[:, None, None] * steps_back.float()


class Steeper(Alibi):
    """Changes the bias itself."""

    def bias(self, query_length, key_length, x=None):
        return 2 * super().bias(query_length, key_length)


class Gentler(Alibi):
    """Changes the slopes only."""

    @property
    def slopes(self):
        return super().slopes / 2


def law_with_slope(slope):
    """A law named "constant_slope", defined again at each call."""

    def constant_slope(distance, head, num_heads):
        return -slope * distance

    return constant_slope


def position_in(model):
    return model.transformer.position


def bias_of_the_last_of_three_tokens(model):
    """In the first head."""
    bias = position_in(model).bias(1, 3)[0, 0].tolist()
    return bias


# Names


def without_a_name():
    return lambda distance, head, num_heads: distance


def called_alibi(distance, head, num_heads):
    return -distance


called_alibi.__name__ = "alibi"


def test_functions_and_classes_have_names_of_their_own():
    partial = functools.partial(root, num_heads=4)
    assert list(named_methods(["alibi", Alibi.__base__, PerHead, partial])) == [
        "alibi",
        "Position",
        "PerHead",
        "root",
    ]


def test_a_built_in_class_has_its_built_in_name():
    assert method_name(Alibi) == "alibi"


def test_other_names_can_be_given():
    steep = law_with_slope(2.0)
    assert named_methods({"steep": steep, "none": "none"}) == {"steep": steep, "none": "none"}


@each_case(
    ("methods", "error", "message"),
    {
        "an unknown name": (["nothing"], ValueError, "must be one of alibi, .*, got 'nothing'"),
        "a lambda": (
            [without_a_name()],
            ValueError,
            "a lambda has no name: give .* {name: method}",
        ),
        "a number": ([3], TypeError, "must be a name, a function or a subclass of Position, got 3"),
        "another class": ([dict], TypeError, "a subclass of Position, got <class 'dict'>"),
        "no method": ([], ValueError, "methods must be one or more"),
        "no list": ("alibi", TypeError, "methods must be a list of position methods, or"),
        "two of one name": (
            [law_with_slope(1.0), law_with_slope(2.0)],
            ValueError,
            r"different names, which \{name: method\} can give, got \['constant_slope', 'const",
        ),
        "a name that is taken": ([called_alibi], ValueError, "'alibi' is the name of a position"),
        "a taken name for a law": ({"t5": root}, ValueError, "'t5' is the name of a position"),
    },
)
def test_what_is_no_method_is_refused(methods, error, message):
    with pytest.raises(error, match=message):
        named_methods(methods)


class Multiple:
    """A law with a parameter, as an object that can be called."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, distance, head, num_heads):
        return -self.factor * distance


@each_case(
    "law",
    {
        "function": law_with_slope(2.0),
        "partial": functools.partial(lambda d, head, num_heads, slope: -slope * d, slope=2.0),
        "object": Multiple(2.0),
    },
)
def test_whatever_can_be_called_with_a_distance_is_a_law(law):
    assert bias_of_the_last_of_three_tokens(lab.make_model(law)) == [-4, -2, 0]


# Laws of the distance


def test_a_law_gives_the_bias_of_every_pair():
    model = LanguageModel(TransformerConfig(position=root, num_layers=1, num_heads=4))
    bias = position_in(model).bias(3, 5)
    assert bias.shape == (4, 3, 5)
    for head in (1, 2, 3, 4):
        expected = []
        for query in (2, 3, 4):  # the last of the five positions
            expected.append([-math.sqrt(abs(query - key)) / (2 * head) for key in range(5)])
        torch.testing.assert_close(bias[head - 1], torch.tensor(expected))


def test_a_decorated_law_is_called_with_its_decoration():
    def times(factor, law):
        @functools.wraps(law)
        def multiplied(*arguments):
            return factor * law(*arguments)

        return multiplied

    model = lab.make_model(times(4, root))
    assert bias_of_the_last_of_three_tokens(model) == pytest.approx([-2 * math.sqrt(2), -2, 0])


def test_a_table_of_biases_is_a_law_up_to_its_end():
    def tabled(distance, head, num_heads):
        return torch.linspace(0, -5, 200)[distance]

    logits = lab.make_model(tabled)(torch.zeros(1, 200, dtype=torch.long))
    assert bool(logits.isfinite().all())


def test_source_text_of_a_law_is_that_of_its_definition():
    source = source_text(law_with_slope(1.0))
    assert source.startswith("def constant_slope(distance, head, num_heads)")
    assert "return -slope * distance" in source


def test_a_law_from_a_console_has_no_source_text():
    names = {"__name__": "__main__"}
    exec("def typed(distance, head, num_heads):\n    return -1.0 * distance\n", names)
    assert source_text(names["typed"]) == ""


@each_case(
    ("law", "distances", "expected"),
    {
        "linear": (laws.linear, [0, 1, 16], [0, -1 / 8, -2]),
        "square_root": (laws.square_root, [0, 1, 16], [0, -1 / 8, -1 / 2]),
        "logarithmic": (laws.logarithmic, [0, 1, 7], [0, -0.519860, -1.559581]),
        "power": (laws.power, [0, 1, 256], [0, -1 / 8, -1]),
        "window": (laws.window, [0, 31, 32], [0, 0, -math.inf]),
    },
)
def test_a_built_in_law_has_these_values_in_head_3_of_8(law, distances, expected):
    """The slope of that head is 1 / 8."""
    bias = law(torch.tensor(distances), 3, 8)
    torch.testing.assert_close(bias, torch.tensor(expected))


@pytest.mark.parametrize("name", laws.__all__)
def test_a_built_in_law_works_on_the_device_of_the_distance(name):
    distance = torch.arange(5, device="meta")
    assert getattr(laws, name)(distance, 3, 8).is_meta


@pytest.mark.parametrize("name", laws.__all__)
def test_a_built_in_law_refuses_a_number_of_heads_that_is_no_integer(name):
    with pytest.raises(TypeError, match=r"num_heads must be an integer, got 2\.0"):
        getattr(laws, name)(torch.arange(5), 1, 2.0)


every_built_in_law = pytest.mark.parametrize("name", laws.__all__)


@every_built_in_law
def test_a_built_in_law_makes_a_model(name):
    model = lab.make_model(getattr(laws, name))
    assert bool(model(torch.zeros(1, 300, dtype=torch.long)).isfinite().all())


@every_built_in_law
def test_a_built_in_law_is_defined_in_head_80(name):
    """Where a window of 2^82 tokens doesn't fit into int64."""
    law = getattr(laws, name)
    assert bool(law(torch.arange(40), 80, 80).isfinite().all())


@every_built_in_law
@pytest.mark.parametrize("head", [0, 9])
def test_a_built_in_law_refuses_a_head_out_of_range(name, head):
    law = getattr(laws, name)
    with pytest.raises(ValueError, match=f"head must be between 1 and 8, got {head}"):
        law(torch.arange(40), head, 8)


# Laws that can't be used, each named after its mistake


def too_short(distance, head, num_heads):
    return distance[:3]


def nothing(distance, head, num_heads):
    return None


def of_bools(distance, head, num_heads):
    return distance > 3


def trainable(distance, head, num_heads):
    return -torch.nn.Parameter(torch.ones(())) * distance


def without_the_own_token(distance, head, num_heads):
    return -1 / distance.float()


def undefined_beyond_40(distance, head, num_heads):
    return torch.where(distance > 40, torch.nan, 0.0)


def random(distance, head, num_heads):
    return -torch.rand(len(distance))


def without_num_heads(distance, head):
    return distance


def for_two_heads(distance, head, num_heads):
    return -torch.tensor([0.5, 0.25])[head - 1] * distance


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (too_short, r"must return a tensor of numbers \[64\], got torch\.int64 \[3\]"),
        (nothing, r"must return a tensor of numbers \[64\], got NoneType"),
        (of_bools, r"must return a tensor of numbers \[64\], got torch\.bool \[64\]"),
        (trainable, "a function trains no parameters.* Position"),
        (without_the_own_token, "the bias at distance 0 is -inf, expected a number$"),
        (undefined_beyond_40, "distance 41 is nan, expected a number or -inf$"),
        (random, r"gives -0\.\d+ and then -0\.\d+ for distance 0 in head 1"),
        (without_num_heads, "takes 2 positional arguments but 3 were given"),
        (for_two_heads, "head 3 of 4: IndexError"),
    ],
)
def test_a_law_that_cannot_be_used_is_named_with_the_value(law, message):
    with pytest.raises(ValueError, match=f"law '{law.__name__}'.*{message}"):
        lab.make_model(law)


# Classes


def test_a_class_gets_the_settings_that_it_names():
    model = LanguageModel(TransformerConfig(position=PerHead, num_heads=4))
    assert position_in(model).slopes.shape == (4,)


def test_a_class_takes_its_settings_by_name_in_any_order():
    class Swapped(Position):
        def __init__(self, max_length, num_heads):
            super().__init__()
            self.sizes = (max_length, num_heads)

        def embed(self, tokens, start=0):
            return tokens + start

    model = lab.make_model(Swapped, max_length=40, num_heads=4)
    assert position_in(model).sizes == (40, 4)


def test_a_class_that_overrides_nothing_is_refused():
    class Old(Position):
        def transform(self, query, key):
            return -query, key

    with pytest.raises(ValueError, match="Old must override embed, rotate or bias of Position"):
        lab.make_model(Old)


def test_a_class_of_your_own_is_trained():
    model = lab.make_model(PerHead)
    model(torch.arange(20)[None]).logsumexp(-1).sum().backward()
    assert bool(position_in(model).slopes.grad.any())


def test_all_other_weights_start_as_with_a_built_in_method():
    own_weights = lab.make_model(PerHead).head.weight
    assert torch.equal(own_weights, lab.make_model("alibi").head.weight)


@pytest.mark.parametrize(("method", "factor"), [(Steeper, 2.0), (Gentler, 0.5)])
def test_a_subclass_of_alibi_attends_with_its_own_bias(method, factor):
    query, key, value = torch.randn(3, 1, 2, 9, 4, generator=torch.Generator().manual_seed(0))
    position = method(2)
    expected = Alibi(2, slopes=factor * alibi_slopes(2))
    assert torch.equal(position.bias(9, 9), expected.bias(9, 9))
    torch.testing.assert_close(
        attend(position, query, key, value),
        attend(expected, query, key, value),
    )


def test_a_subclass_of_alibi_with_other_slopes_takes_padding():
    x = torch.ones(1, 2, 8)
    mask = torch.tensor([[True, True]])
    assert SelfAttention(Gentler(2), 8, 2)(x, key_padding_mask=mask).shape == x.shape


def test_a_subclass_of_alibi_with_another_bias_takes_no_padding():
    x = torch.ones(1, 2, 8)
    mask = torch.tensor([[True, True]])
    with pytest.raises(TypeError, match="only ALiBi takes one, not Steeper"):
        SelfAttention(Steeper(2), 8, 2)(x, key_padding_mask=mask)


def test_a_class_that_looks_ahead_is_refused():
    class Ahead(Position):
        """Lets every query see every key."""

        def logits(self, query, key, *, causal):
            return query @ key.mT

    with pytest.raises(
        ValueError,
        match="position method 'Ahead' looks ahead: another token at position 15 changes",
    ):
        lab.make_model(Ahead)


class Changing(Position):
    """Positions that change as the text grows."""

    supports_cache = False

    def embed(self, tokens, start=0):
        return tokens / tokens.shape[1]


def test_a_method_that_supports_no_cache_generates_without_one():
    texts = lab.make_model(Changing).generate(torch.arange(9)[None], 2)
    assert texts.shape == (1, 11)


NO_CACHE = "'Changing' supports no cache, because new tokens move earlier ones"


def test_a_method_that_supports_no_cache_refuses_to_generate_with_one():
    with pytest.raises(ValueError, match=NO_CACHE):
        lab.make_model(Changing).generate(torch.arange(9)[None], 2, use_cache=True)


def test_a_method_that_supports_no_cache_refuses_one_that_it_is_given():
    model = lab.make_model(Changing)
    caches = [KeyValueCache() for _ in model.transformer.blocks]
    with pytest.raises(ValueError, match=NO_CACHE):
        model(torch.arange(9)[None], caches)
