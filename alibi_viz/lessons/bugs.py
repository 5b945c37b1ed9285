"""Faulty implementations to recognize by their attention weights and to repair, ordered from easy to hard.

Each has one fault that was in a public project, in a few lines of our own. The projects are exhibits of the gallery,
where some have a second fault that is left out here.
"""

from dataclasses import dataclass

from alibi_viz.gallery import EXHIBITS, Exhibit
from alibi_viz.lessons.view import View

__all__ = ["BUGS", "Bug"]


@dataclass(frozen=True)
class Bug:
    """A faulty function, four possible answers to what is wrong with it, and a call that shows it.

    Attributes:
        name: "case 1", "case 2", ..., which does not give the fault away.
        code: the source text of the function; it uses `torch`, `math` and `av` without importing them.
        exhibit: the public project with this fault.
        answers: names of four faults, keys of `alibi_viz.check.FAULTS`, in the order of the buttons. One is right.
        view: the call whose weights show the fault.
    """

    name: str
    code: str
    exhibit: Exhibit
    answers: tuple[str, str, str, str]
    view: View

    @property
    def fault(self) -> str:
        """The name of the fault: the right answer."""
        return self.exhibit.name

    @property
    def kind(self) -> str:
        """What the function computes: "slopes", "bias" or "attention"."""
        return self.exhibit.kind

    @property
    def causal(self) -> bool:
        """Whether keys after the query should be masked."""
        return bool(self.exhibit.options.get("causal", True))


BUGS: dict[str, Bug] = {}


def _add(rule: str, answers: tuple[str, str, str, str], view: View, code: str) -> None:
    """Add a bug; `rule` is the name of the gallery's function whose exhibit is the origin."""
    (exhibit,) = [exhibit for exhibit in EXHIBITS if exhibit.rule.__name__ == rule]
    name = f"case {len(BUGS) + 1}"
    BUGS[name] = Bug(name, code.strip("\n"), exhibit, answers, view)


_add(
    "attention_gym_2024",
    ("no bias", "sign reversed", "bias before scaling", "first slope is 1"),
    View(head=2),
    """
def bias(num_heads, query_length, key_length):
    slopes = av.alibi_slopes(num_heads)[:, None, None]
    query = torch.arange(key_length - query_length, key_length)[:, None]
    key = torch.arange(key_length)
    return slopes * (query - key)
""",
)
_add(
    "ggml_2023",
    ("geometric slopes", "bias before scaling", "no bias", "added twice"),
    View(head=2),
    """
def bias(num_heads, query_length, key_length):
    slopes = av.alibi_slopes(num_heads)[:, None, None]
    position = torch.arange(key_length - query_length, key_length)[:, None]
    return slopes * position
""",
)
_add(
    "first_slope_is_one",
    ("heads without a bias", "first slope is 1", "added twice", "sign reversed"),
    View(num_heads=12),
    """
def slopes(num_heads):
    power = 2 ** int(math.log2(num_heads))
    first = [2 ** (-8 * head / power) for head in range(power)]
    more = [2 ** (-4 * head / power) for head in range(1, 2 * (num_heads - power), 2)]
    return first + more
""",
)
_add(
    "llama_cpp_cann",
    ("slopes of a head slice", "no bias", "geometric slopes", "heads without a bias"),
    View(num_heads=12),
    """
def slopes(num_heads):
    power = 2 ** int(math.log2(num_heads))
    slopes = [0.0] * num_heads
    for head in range(power):
        slopes[head] = 2 ** (-8 * (head + 1) / power)
    return slopes
""",
)
_add(
    "labml_2021",
    ("bias before scaling", "no bias", "square root of the distance", "sign reversed"),
    View(head=1),
    """
def attention(query, key, value):
    query_length, key_length = query.shape[2], key.shape[2]
    bias = av.alibi_bias(av.alibi_slopes(query.shape[1]), query_length, key_length)
    visible = av.causal_mask(query_length, key_length)
    logits = (query @ key.mT + bias) / math.sqrt(query.shape[-1])
    return logits.masked_fill(~visible, -math.inf).softmax(-1) @ value
""",
)
_add(
    "falcon_eager",
    ("bias before scaling", "content too weak", "added twice", "square root of the distance"),
    View(head=3),
    """
def attention(query, key, value):
    query_length, key_length = query.shape[2], key.shape[2]
    bias = av.alibi_bias(av.alibi_slopes(query.shape[1]), query_length, key_length)
    mask = bias.masked_fill(~av.causal_mask(query_length, key_length), -math.inf)
    logits = query @ key.mT / math.sqrt(query.shape[-1]) + bias
    return (logits + mask).softmax(-1) @ value
""",
)
_add(
    "jaketae_encoder",
    ("rewarded future", "only earlier keys", "no bias", "added twice"),
    View(head=2),
    """
def attention(query, key, value):  # of an encoder, so nothing is masked
    key_position = torch.arange(key.shape[2])
    query_position = key_position[-query.shape[2] :, None]
    bias = -av.alibi_slopes(query.shape[1])[:, None, None] * (query_position - key_position)
    logits = query @ key.mT / math.sqrt(query.shape[-1]) + bias
    return logits.softmax(-1) @ value
""",
)
_add(
    "mlx_2023",
    ("slopes of a head slice", "first slope is 1", "heads without a bias", "geometric slopes"),
    View(num_heads=12),
    """
def slopes(num_heads):
    return [2 ** (-8 * head / num_heads) for head in range(1, num_heads + 1)]
""",
)
_add(
    "keras_hub_falcon",
    ("wrong corner of the cache", "no bias while decoding", "sign reversed", "length cap"),
    View(query_length=1),
    """
def bias(num_heads, query_length, key_length):
    slopes = av.alibi_slopes(num_heads)[:, None, None]
    position = torch.arange(key_length if query_length > 1 else query_length)
    return slopes * position
""",
)
_add(
    "x_transformers_2022",
    ("sign reversed", "no bias while decoding", "causal mask in the wrong corner", "wrong corner of the cache"),
    View(head=2, query_length=5),
    """
def bias(num_heads, query_length, key_length):
    position = torch.arange(key_length)
    distance = (position[:, None] - position).abs()
    cached = -av.alibi_slopes(num_heads)[:, None, None] * distance
    return cached[:, :query_length, :key_length]
""",
)
_add(
    "flashinfer",
    ("heads in another order", "geometric slopes", "slopes of a head slice", "first slope is 1"),
    View(),
    """
def slopes(num_heads, devices=2):
    local_heads = num_heads // devices
    parts = [av.alibi_slopes(local_heads) for device in range(devices)]
    return torch.cat(parts)
""",
)
_add(
    "step_audio",
    ("length cap", "square root of the distance", "bias before scaling", "added twice"),
    View(head=2),
    """
def bias(num_heads, query_length, key_length):
    slopes = av.alibi_slopes(num_heads)[:, None, None]
    query = torch.arange(key_length - query_length, key_length)[:, None]
    distance = (query - torch.arange(key_length)).clamp(min=0)
    return -slopes * distance.sqrt()
""",
)
_add(
    "jaketae_content",
    ("content too weak", "added twice", "content not scaled", "bias before scaling"),
    View(head=3, words=5),
    """
def attention(query, key, value):
    heads, query_length, head_dim = query.shape[1:]
    logits = query @ key.mT / math.sqrt(heads * head_dim)
    logits = logits + av.alibi_bias(av.alibi_slopes(heads), query_length, key.shape[2])
    visible = av.causal_mask(query_length, key.shape[2])
    return logits.masked_fill(~visible, -math.inf).softmax(-1) @ value
""",
)
_add(
    "bloom_in_bfloat16",
    ("imprecise slopes", "window", "colliding positions", "length cap"),
    View(query_length=1, key_length=2048, shown=48),
    """
def bias(num_heads, query_length, key_length):
    slopes = av.alibi_slopes(num_heads)[:, None, None]
    position = torch.arange(key_length)
    return (slopes * position).bfloat16()
""",
)
