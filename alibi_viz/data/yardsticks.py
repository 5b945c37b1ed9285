"""What a text costs two models that only count: yardsticks for the losses of others.

A loss of 4 bits per byte says little by itself. A model that knows nothing, and takes all 256 bytes
for equally likely, needs 8. But a model that knows no more than how often each letter occurs needs
about 4.5 on English text, and one that also knows which letter follows which needs about 3.3. A
loss above these isn't that of an ignorant model, but of one that is sure and wrong.
"""

import torch
from torch import Tensor

BYTES = 256
# Added to the count of every byte. Without it, a byte that training never had would cost infinitely
# many bits.
SMOOTHING = 0.5
# Pairs that are added after every byte, divided like the letter frequencies. So what follows a rare
# byte isn't guessed from one or two pairs alone (a Dirichlet prior, as in MacKay and Peto 1995).
PRIOR_PAIRS = 5


def losses_of_counting(train: Tensor, validation: Tensor) -> dict[str, float]:
    """Bits per byte of two models that only count, see `Text.yardsticks`.

    They count in `train` and predict `validation`, both uint8 [bytes], without its first byte,
    which has none before it. NaN if that leaves nothing to predict.

    >>> import torch
    >>> from alibi_viz.data.yardsticks import losses_of_counting
    >>> letters = torch.tensor(list(b"abab" * 1000), dtype=torch.uint8)
    >>> for name, bits in losses_of_counting(letters, letters[:100]).items():
    ...     print(name, round(bits, 1))
    letter frequencies 1.0
    letter pairs 0.0
    """
    frequencies = _letter_frequencies(train)
    pairs = _pair_frequencies(train, frequencies)
    before = validation[:-1].long()
    predicted = validation[1:].long()
    return {
        "letter frequencies": _mean_bits(frequencies[predicted]),
        "letter pairs": _mean_bits(pairs[before, predicted]),
    }


def _letter_frequencies(train: Tensor) -> Tensor:
    """The probability of each byte, float64 [256]."""
    counts = torch.bincount(train, minlength=BYTES).double() + SMOOTHING
    return counts / counts.sum()


def _pair_frequencies(train: Tensor, frequencies: Tensor) -> Tensor:
    """The probability of each byte after each other one, float64 [byte before, byte]."""
    # The number of each pair, below 65,536. There may be 20 million, so 4 bytes each must do.
    pairs = train[:-1].int() * BYTES + train[1:]
    counts = torch.bincount(pairs, minlength=BYTES**2).view(BYTES, BYTES).double()
    counts += PRIOR_PAIRS * frequencies
    return counts / counts.sum(1, keepdim=True)


def _mean_bits(probabilities: Tensor) -> float:
    return float(-probabilities.log2().mean())
