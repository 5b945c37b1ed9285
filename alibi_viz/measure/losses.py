"""Measure the loss of a language model at lengths other than the one it was trained on, and let it
write.

Every length predicts the same bytes of the validation part of a text, so losses differ only because
of the context.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from alibi_viz import arguments
from alibi_viz.data.text import Text
from alibi_viz.memory import check_memory
from alibi_viz.models import LanguageModel
from alibi_viz.models.pretrained import evaluation_mode

TARGETS = (
    8192  # bytes predicted at each length; a constant, so that a model has the same loss everywhere
)
MAX_BATCH_TOKENS = 4096  # bounds the memory of one forward pass
_PER_PAIR = {
    "fire": 34,
    "forget": 17,
    "stick-breaking": 26,
    "cope": 41,
}  # bytes, measured; 8 for other dense methods


def evaluation_lengths(length: int, longest: int = 16) -> list[int]:
    """The training length L, 2L, 4L, ..., up to `longest` times L; no lengths if `longest` is 0.

    >>> lab.evaluation_lengths(32)
    [32, 64, 128, 256, 512]
    """
    arguments.check_positive_integers(length=length)
    arguments.check_integer("longest", longest, 0)
    return [length * 2**power for power in range(longest.bit_length())]


def loss_by_length(
    model: LanguageModel, text: Text, lengths: Iterable[int], *, targets: int = TARGETS
) -> dict[int, float]:
    """Mean bits per byte in sequences of each length, without overlap: the first targets of each
    see little context.

    The number of targets is rounded down to a multiple of every length if there is one. The loss is
    NaN where the model isn't defined. Raises ValueError if the validation part is too short, and
    MemoryError if a length is too long.

    >>> losses = lab.loss_by_length(lab.make_model(), lab.load_text(), [32, 64])
    >>> [round(loss) for loss in losses.values()]  # untrained: about log2(256) bits
    [8, 8]
    """
    return {
        length: float(bits.mean())
        for length, bits in shared_losses(model, text, lengths, targets=targets)
    }


def shared_losses(
    model: LanguageModel, text: Text, lengths: Iterable[int], *, targets: int = TARGETS
) -> Iterator[tuple[int, Tensor]]:
    """Bits for each target of `loss_by_length`, float32 [targets] in the order of the text, one
    length at a time."""
    check_decoder(model)
    lengths = arguments.positive_integers("lengths", lengths)
    arguments.check_instance("text", text, Text)
    arguments.check_positive_integers(targets=targets)
    available = max(0, min(targets, len(text.validation) - 1))
    if max(lengths) > available:
        has = f"{text.name} has {len(text.validation):,} bytes of validation text"
        why = (
            f"{has} and {targets:,} targets were requested, so sequences of at most {available} fit"
        )
        raise ValueError(f"length {max(lengths)} is too long: {why}")
    check_memory("length", max(lengths), partial(needed_memory, model))
    multiple = math.lcm(*lengths)
    shared = available // multiple * multiple or min(
        available // length * length for length in lengths
    )
    for length in lengths:
        end = (
            math.ceil(shared / length) * length + 1
        )  # the last sequence may reach beyond the shared targets
        yield (
            length,
            sequence_losses(model, text.validation[:end].unfold(0, length + 1, length)).flatten()[
                :shared
            ],
        )


def check_decoder(model: LanguageModel) -> None:
    """Raise TypeError or ValueError unless it is a model that predicts: an encoder sees the next
    token."""
    arguments.check_instance("model", model, LanguageModel)
    if not model.config.causal:
        raise ValueError(
            "model must have causal=True in its config: an encoder sees the tokens that it should "
            "predict"
        )


def needed_memory(model: LanguageModel, length: int) -> int:
    """The bytes that a forward pass on one sequence takes at least: per token, and a bias for each
    pair of tokens."""
    config, position = model.config, model.transformer.position
    dense = position.has_bias and not position.uses_key_ball
    per_token = 8 * (config.vocabulary + (config.expansion_factor + 4) * config.d_model)
    return (
        length * per_token
        + dense * _PER_PAIR.get(config.position, 8) * config.num_heads * length**2
    )


def loss_by_position(
    model: LanguageModel, text: Text, length: int, *, targets: int = TARGETS
) -> Tensor:
    """Mean bits per byte at each position of sequences of `length` bytes: float32 [length]; NaN
    where not defined.

    It is highest at the first positions, which see little context: the "early token curse" (Press
    et al. 2021, app. B).
    """
    arguments.check_positive_integers(length=length)
    ((_, bits),) = shared_losses(model, text, [length], targets=targets)
    return bits.view(-1, length).mean(0)


def diverged(model: LanguageModel, losses: Mapping[int, float]) -> bool:
    """Whether a loss, by length, is not finite although the model is defined there."""
    return any(
        not math.isfinite(loss) and model.is_defined_at(length) for length, loss in losses.items()
    )


@contextmanager
def evaluating(model: nn.Module) -> Iterator[torch.device]:
    """Disable dropout and gradients inside a `with` block, and yield the device of the model."""
    reuse_freed_memory()
    with evaluation_mode(model), torch.inference_mode():
        yield next(model.parameters()).device


def sequence_losses(model: LanguageModel, sequences: Tensor, last: int | None = None) -> Tensor:
    """Bits for the last targets, by default all, of sequences [count, context + 1]: float32 [count,
    last]."""
    context = sequences.shape[1] - 1
    last = context if last is None else last
    if not model.is_defined_at(context):
        return torch.full((len(sequences), last), math.nan, device="cpu")
    with evaluating(model) as device:
        return target_losses(partial(model, last=last), sequences.to(device), last) / math.log(2)


def target_losses(predict: Callable[[Tensor], Tensor], sequences: Tensor, last: int) -> Tensor:
    """`sequence_losses` in nats, for a function from tokens to their last logits, [count, last,
    vocabulary]."""
    losses = []
    for batch in sequences.long().split(max(1, MAX_BATCH_TOKENS // (sequences.shape[1] - 1))):
        logits = predict(batch[:, :-1])
        logits = logits.to(
            torch.promote_types(logits.dtype, torch.float32)
        )  # half precision would round the losses
        targets = batch[:, -last:].to(logits.device)  # a large model may be spread over several
        losses.append(cross_entropy(logits.transpose(1, 2), targets, reduction="none").cpu())
    return torch.cat(losses)


@cache
def reuse_freed_memory() -> None:
    """Let glibc reuse freed memory; without this, two models evaluated at the same time take about
    a quarter longer.

    When it frees a block of up to 32 MiB, it keeps all smaller ones from then on (M_MMAP_THRESHOLD
    in mallopt(3)).
    """
    torch.empty(31 * 2**20, dtype=torch.uint8, device="cpu")


SAMPLES = 8  # the words of a single text are too few to count
TEMPERATURE = 0.4  # small models repeat themselves at 0, and misspell most words at 1
LONGEST = 256  # bytes, because a model without a cache reads the whole text again for each new byte
WORD = re.compile(
    r"(?<=[\W\d_])[^\W\d_]{3,}(?=[\W\d_])"
)  # shorter words also occur in random letters


class Continuation(NamedTuple):
    """What a model wrote after a prompt, in three parts. Bytes that are not UTF-8 are shown as
    U+FFFD."""

    prompt: str  # the start of the validation text, half as long as the training sequences
    within: str  # what the model wrote up to its training length
    beyond: str  # what it wrote after that; empty if its positions are not defined there


def continuations(
    model: LanguageModel, text: Text, length: int, *, seed: int = 0
) -> list[Continuation]:
    """Eight continuations of the first `length // 2` bytes of the validation text, sampled at
    temperature 0.4.

    They end after `8 * length` bytes, but at the latest after 256 bytes or twice the length,
    whichever is more. Equal seeds give equal texts on one machine. `length` is the training length
    in bytes, at least 2. Raises ValueError if the validation part is shorter than the prompt.

    >>> texts = lab.continuations(lab.make_model("alibi"), lab.load_text(), 64)
    >>> len(texts), texts[0].prompt
    (8, 'This is the story of Emma, a pro')
    """
    arguments.check_instance("model", model, LanguageModel)
    arguments.check_instance("text", text, Text)
    arguments.check_integer("length", length, 2)
    arguments.check_seed(seed)
    end = max(2 * length, min(8 * length, LONGEST))
    end = end if model.is_defined_at(end) else length
    prompt = text.validation[: length // 2]
    if len(prompt) < length // 2:
        has = f"its validation part has {len(prompt):,}"
        raise ValueError(f"{text.name} is too short for a prompt of {length // 2:,} bytes: {has}")
    with evaluating(model) as device:
        tokens = prompt.long().to(device).expand(SAMPLES, -1)
        generator = torch.Generator(device).manual_seed(seed)
        written = model.generate(
            tokens, end - len(prompt), temperature=TEMPERATURE, generator=generator
        )
    ends = (0, len(prompt), length, end)
    return [
        Continuation(*(_decode(row[start:stop]) for start, stop in pairwise(ends)))
        for row in written.tolist()
    ]


def known_words(passages: Iterable[str], text: Text) -> float:
    """The share of words in the passages that occur in the training part of the text; NaN if there
    are no words.

    A word is three or more letters between other characters, so words cut by the ends of a passage
    don't count.
    """
    arguments.check_instance("text", text, Text)
    passages = arguments.as_list("passages", passages, "strings", str)
    known = set(WORD.findall(_decode(text.train.tolist())))
    words = [word in known for passage in passages for word in WORD.findall(passage)]
    return sum(words) / len(words) if words else math.nan


def _decode(data: list[int]) -> str:
    return bytes(data).decode("utf-8", "replace")
