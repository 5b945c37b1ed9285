"""How good is a model at another length? Measured on one frozen set of target bytes.

Every length predicts exactly the same bytes of the validation text; only the size of the windows, and so the context
that a target sees, differs. Without this, a longer length would also be a different (easier or harder) text.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel

__all__ = ["diverged", "length_losses", "loss_by_length", "loss_by_position", "token_losses"]

TOKENS_A_BATCH = 4096  # bounds the memory of one forward pass


def token_losses(model: LanguageModel, text: Text, length: int, *, targets: int = 8192) -> Tensor:
    """Bits for each target byte, the validation text cut into nonoverlapping windows: float32 [windows, length].

    Windows are cut from the front; `targets` bytes are predicted, rounded down to whole windows. Column p holds the
    targets that saw p + 1 bytes of context. Each position method that is not defined at `length` (learned positions
    beyond their table) gives NaN everywhere.

    Raises ValueError when the length is not a whole number from 1 up or the validation text holds no whole window.
    """
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        raise ValueError(f"length must be a whole number from 1 up, got {length!r}")
    data = text.validation
    windows = min(targets, len(data) - 1) // length
    if windows < 1:
        raise ValueError(
            f"length {length} is too long: {text.name} has {len(data):,} bytes of validation text and {targets:,} "
            f"targets were asked for, so windows of at most {max(0, min(targets, len(data) - 1))} fit"
        )
    longest = model.transformer.position.longest
    if longest is not None and length > longest:
        return torch.full((windows, length), math.nan)
    data = data[: windows * length + 1].long()
    inputs, following = data[:-1].view(windows, length), data[1:].view(windows, length)
    batch = max(1, TOKENS_A_BATCH // length)
    with evaluating(model) as device:
        losses = [
            cross_entropy(model(some.to(device)).transpose(1, 2), then.to(device), reduction="none")  # [batch, length]
            for some, then in zip(inputs.split(batch), following.split(batch), strict=True)
        ]
    return torch.cat(losses).cpu() / math.log(2)


@contextmanager
def evaluating(model: LanguageModel) -> Iterator[torch.device]:
    """Dropout off and no gradients for a while; gives the device of the model."""
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield model.head.weight.device
    finally:
        model.train(was_training)


def loss_by_length(
    model: LanguageModel, text: Text, lengths: Iterable[int], *, targets: int = 8192
) -> dict[int, float]:
    """Mean bits per byte at each length, on the same target bytes for all of them.

    Where there are enough targets their number is a multiple of every length, so that all windows are whole. A length
    at which the model's positions are not defined gets NaN.

    Raises ValueError when the validation text is too short for the longest length, naming what would fit.

    >>> losses = lab.loss_by_length(lab.make_model(), lab.load_text(), [32, 64])
    >>> [round(loss) for loss in losses.values()]  # untrained: about log2(256) bits
    [8, 8]
    """
    return dict(length_losses(model, text, lengths, targets=targets))


def length_losses(
    model: LanguageModel, text: Text, lengths: Iterable[int], *, targets: int = 8192
) -> Iterator[tuple[int, float]]:
    """`loss_by_length` as a stream of (length, bits per byte), for who may want to stop between two lengths."""
    lengths = list(lengths)
    available = min(targets, len(text.validation) - 1)
    sound = all(isinstance(length, int) and length > 0 for length in lengths)
    whole = math.lcm(*lengths) if sound else 1
    shared = min((available // length * length for length in lengths), default=0) if sound else 0
    frozen = available // whole * whole or shared  # the first bytes of the text, the same ones at every length
    for length in lengths:
        # whole windows, of which the last may say more than is asked
        windows = -(-frozen // length) * length if sound and frozen else available
        yield length, float(token_losses(model, text, length, targets=windows).flatten()[: frozen or None].mean())


def diverged(model: LanguageModel, losses: Mapping[int, float]) -> bool:
    """Whether a loss is no number at a length at which the model's positions are defined."""
    longest = model.transformer.position.longest
    defined = [loss for length, loss in losses.items() if longest is None or length <= longest]
    return not all(map(math.isfinite, defined))


def loss_by_position(model: LanguageModel, text: Text, length: int, *, targets: int = 8192) -> Tensor:
    """Mean bits per byte at each position of windows of `length`: float32 [length].

    The first positions are always the worst, whatever the method: they have little to go on. Averaged over a short
    window this "early token curse" (Press et al. 2021, appendix B) weighs more than over a long one.
    """
    return token_losses(model, text, length, targets=targets).mean(0)
