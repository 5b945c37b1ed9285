"""A key-value cache for decoding."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.functional import pad

from alibi_viz import arguments
from alibi_viz.attention import KeyBall


class KeyValueCache:
    """Keys and values of one layer, each [..., length, channels]. The capacity grows by doubling.

    ALiBi needs nothing else: its bias counts back from the last key. Pad on the left, or padding
    counts as distance.

    `length` is the number of cached tokens. Set it to a smaller number to remove the last ones. A
    larger or negative number raises ValueError.

    >>> import torch
    >>> import alibi_viz as av
    >>> cache = av.KeyValueCache()
    >>> for _ in range(3):
    ...     keys, values = cache.append(torch.zeros(1, 8, 1, 32), torch.zeros(1, 8, 1, 32))
    >>> keys.shape, cache.length
    (torch.Size([1, 8, 3, 32]), 3)
    """

    def __init__(self) -> None:
        self._length = 0
        self._buffers: tuple[Tensor, ...] = ()
        self._ball: KeyBall | None = None
        self._length_of_ball = 0  # tokens that the ball includes

    @property
    def length(self) -> int:
        """The number of cached tokens."""
        return self._length

    @length.setter
    def length(self, length: int) -> None:
        arguments.check_integer("length", length, 0, self._length)
        self._length = length

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """Add new tokens, and return all tokens so far, one tensor per argument.

        Each tensor is [..., new tokens, channels]. The results are views of the cache: after some
        tokens were removed, new ones overwrite them. Raises TypeError for no tensors or something
        else, and ValueError when the new tensors do not fit the cached ones, or when they require a
        gradient.
        """
        _check_tensors(new)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in new):
            raise ValueError(
                "a cache stores no gradients: decode under torch.no_grad() or "
                "torch.inference_mode()"
            )
        if self.length == 0:  # an empty cache takes any shapes
            self._buffers = tuple(tensor[..., :0, :] for tensor in new)
        self._check_fit(new)
        self._length_of_ball = min(self._length_of_ball, self.length)  # tokens may be removed

        end = self.length + new[0].shape[-2]
        self._reserve(end)
        for buffer, tensor in zip(self._buffers, new, strict=True):
            buffer[..., self.length : end, :] = tensor
        self._length = end
        return tuple(buffer[..., :end, :] for buffer in self._buffers)

    def _check_fit(self, new: tuple[Tensor, ...]) -> None:
        """Raise ValueError unless the new tensors continue those in the cache."""
        if len(new) != len(self._buffers):
            raise ValueError(
                f"the cache stores {len(self._buffers)} tensors per token, got {len(new)}"
            )
        new_length = new[0].shape[-2]
        for buffer, tensor in zip(self._buffers, new, strict=True):
            shape = [*buffer.shape[:-2], new_length, buffer.shape[-1]]
            has_shape = list(tensor.shape) == shape
            if has_shape and tensor.dtype == buffer.dtype and tensor.device == buffer.device:
                continue
            expected = f"{shape} of {buffer.dtype} on {buffer.device}"
            got = f"{list(tensor.shape)} of {tensor.dtype} on {tensor.device}"
            raise ValueError(f"tensors appended to the cache must be {expected}, got {got}")

    def _reserve(self, length: int) -> None:
        """Make room for so many tokens, and up to twice as many."""
        capacity = self._buffers[0].shape[-2]
        if length <= capacity:
            return
        next_power_of_two = 1 << (length - 1).bit_length()
        added = next_power_of_two - capacity
        with torch.inference_mode(False):  # so that decoding can continue outside inference mode
            self._buffers = tuple(pad(buffer, (0, 0, 0, added)) for buffer in self._buffers)

    def key_ball(self) -> KeyBall:
        """A ball around the cached keys, the `key_ball` of `alibi_attention`.

        Each token is read only once. The first two cached tensors must be keys and values, each
        [batch, key_heads, length, head_dim]. Raises ValueError if they are not, or if the cache is
        empty.
        """
        if self.length == 0:
            raise ValueError(
                "an empty cache has no ball of keys: append the keys and values of some tokens "
                "first"
            )
        if self._ball is not None and self._length_of_ball >= self.length:
            return self._ball  # after a shorter `length`, it still contains all keys

        self._check_keys_and_values()
        keys, values = self._buffers[:2]
        new_keys = keys[..., self._length_of_ball : self.length, :]
        new_values = values[..., self._length_of_ball : self.length, :]
        if self._ball is None or self._length_of_ball == 0:
            self._ball = KeyBall.of(new_keys, new_values)
        else:
            self._ball = self._ball.including(new_keys, new_values)
        self._length_of_ball = self.length
        return self._ball

    def _check_keys_and_values(self) -> None:
        """Raise ValueError unless the first two cached tensors may be keys and values."""
        shapes = [list(buffer[..., : self.length, :].shape) for buffer in self._buffers]
        if len(shapes) < 2 or len(shapes[0]) != 4 or shapes[0] != shapes[1]:
            raise ValueError(
                "the ball of keys needs a cache of keys and values, each [batch, key_heads, "
                f"length, head_dim], got shapes {', '.join(map(str, shapes))}"
            )


def _check_tensors(new: tuple[Tensor, ...]) -> None:
    """Raise TypeError or ValueError unless there are tensors, each [..., length, channels]."""
    expected = "tensors appended to the cache must be one or more, each [..., length, channels]"
    if not new:
        raise TypeError(f"{expected}, got none")
    for tensor in new:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{expected}, got {type(tensor).__name__}")
        if tensor.ndim < 2:
            raise ValueError(f"{expected}, got shape {list(tensor.shape)}")


@contextmanager
def unchanged_on_error(caches: Sequence[KeyValueCache]) -> Iterator[None]:
    """If a `with` block raises, or its cell is interrupted, the caches keep their lengths."""
    lengths_before = [cache.length for cache in caches]
    try:
        yield
    except BaseException:
        for cache, length in zip(caches, lengths_before, strict=True):
            cache.length = length
        raise
