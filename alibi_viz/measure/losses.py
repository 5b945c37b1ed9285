"""Measure the loss of a language model at lengths other than the one it was trained on.

Every length predicts the same bytes of the validation part of a text, so losses differ only because
of the context.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from alibi_viz import arguments
from alibi_viz.data.text import Text, check_long_enough
from alibi_viz.models import LanguageModel
from alibi_viz.models.pretrained import evaluation_mode

# Bytes predicted at each length. It is a constant, so that a model has the same loss everywhere.
TARGETS = 8192
# Bounds the memory of one forward pass.
MAX_BATCH_TOKENS = 4096


def evaluation_lengths(length: int, longest: int = 16) -> list[int]:
    """The training length L, 2L, 4L, ..., up to `longest` times L; no lengths if `longest` is 0.

    >>> from alibi_viz import lab
    >>> lab.evaluation_lengths(32)
    [32, 64, 128, 256, 512]
    """
    arguments.check_positive_integers(length=length)
    longest = arguments.check_integer("longest", longest, 0)
    return [length * 2**power for power in range(longest.bit_length())]


def loss_by_length(
    model: LanguageModel, text: Text, lengths: Iterable[int], *, targets: int = TARGETS
) -> dict[int, float]:
    """Mean bits per byte in sequences of each length, which do not overlap.

    So the first targets of each sequence see little context. The number of targets is rounded down
    to a multiple of every length if there is one. The loss is NaN where the model isn't defined.
    Raises ValueError if the validation part is too short.

    >>> from alibi_viz import lab
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
    """The bits for each target of `loss_by_length`, one length at a time.

    Yields each length with its bits, float32 [targets], in the order of the text.
    """
    check_decoder(model)
    lengths = arguments.positive_integers("lengths", lengths)
    arguments.check_instance("text", text, Text)
    arguments.check_positive_integers(targets=targets)

    longest = max(lengths)
    if targets < longest:
        raise ValueError(f"targets must be at least the longest length, {longest}, got {targets}")
    # The first byte has no context, so it is no target.
    check_long_enough(text, longest + 1, f"to test at length {longest:,}")
    available = min(targets, len(text.validation) - 1)

    # Whole sequences of every length, or if the text is too short for that, of the worst of them.
    multiple = math.lcm(*lengths)
    shared = available // multiple * multiple
    if shared == 0:
        shared = min(available // length * length for length in lengths)

    for length in lengths:
        # The last sequence may reach beyond the shared targets.
        end = math.ceil(shared / length) * length
        sequences = text.validation[: end + 1].unfold(0, length + 1, length)
        bits = sequence_losses(model, sequences).flatten()
        yield length, bits[:shared]


def check_decoder(model: LanguageModel) -> None:
    """Raise TypeError or ValueError unless the model is a causal `LanguageModel`."""
    arguments.check_instance("model", model, LanguageModel)
    if not model.config.causal:
        raise ValueError(
            "model must have causal=True in its config: an encoder sees the tokens that it should "
            "predict"
        )


def loss_by_position(
    model: LanguageModel, text: Text, length: int, *, targets: int = TARGETS
) -> Tensor:
    """Mean bits per byte at each position of sequences of `length` bytes, float32 [length].

    It is highest at the first positions, which see little context: the "early token curse" (Press
    et al. 2021, app. B). The loss is NaN where the model isn't defined. Raises as `loss_by_length`.

    >>> from alibi_viz import lab
    >>> lab.loss_by_position(lab.make_model(), lab.load_text(), 32).shape
    torch.Size([32])
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
    with evaluation_mode(model), torch.inference_mode():
        yield next(model.parameters()).device


def sequence_losses(model: LanguageModel, sequences: Tensor, last: int | None = None) -> Tensor:
    """The bits for the last targets of each sequence, by default for all of them.

    `sequences` is [count, context + 1]. Returns float32 [count, last] on the CPU, NaN where the
    model isn't defined.
    """
    context = sequences.shape[1] - 1
    if last is None:
        last = context
    if not model.is_defined_at(context):
        return torch.full((len(sequences), last), math.nan, dtype=torch.float32, device="cpu")

    with evaluating(model) as device:
        nats = target_losses(partial(model, last=last), sequences.to(device), last)
        return nats / math.log(2)


def target_losses(predict: Callable[[Tensor], Tensor], sequences: Tensor, last: int) -> Tensor:
    """`sequence_losses` in nats, for a function that predicts.

    `predict` maps tokens, int64 [count, context], to their last logits, [count, last, vocabulary].
    """
    context = sequences.shape[1] - 1
    batch_size = max(1, MAX_BATCH_TOKENS // context)
    losses = []
    for batch in sequences.long().split(batch_size):
        logits = predict(batch[:, :-1])
        # Half precision would round the losses.
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        # A large model may be spread over several devices.
        targets = batch[:, -last:].to(logits.device)
        losses.append(cross_entropy(logits.transpose(1, 2), targets, reduction="none").cpu())
    return torch.cat(losses)
