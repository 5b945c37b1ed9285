"""Key-value cache for decoding: store the keys and values of earlier tokens, and process only new tokens."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from alibi_viz.attention import KeyBall

__all__ = ["KeyValueCache"]


class KeyValueCache:
    """Keys and values of one layer, each [..., length, channels]. The capacity grows by doubling.

    `append` takes the tensors of the new tokens and returns those of all tokens so far. ALiBi needs nothing else: its
    bias counts back from the last key, so cached keys never change.

    `length` is the number of cached tokens. Set it to a smaller number to remove the last ones, such as the rejected
    tokens of speculative decoding.

    Raises ValueError when the new tensors do not fit the cached ones, or when they require a gradient.

    >>> cache = KeyValueCache()
    >>> for _ in range(3):
    ...     keys, values = cache.append(torch.zeros(1, 8, 1, 32), torch.zeros(1, 8, 1, 32))
    >>> keys.shape, cache.length
    (torch.Size([1, 8, 3, 32]), 3)
    """

    def __init__(self) -> None:
        self.length = 0
        self._buffers: tuple[Tensor, ...] = ()
        self._ball: KeyBall | None = None
        self._measured = 0  # tokens that the ball includes

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """Add the new tokens, and return the tensors of all tokens so far, one per argument.

        They are views of the cache: read them, don't write to them.
        """
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in new):
            raise ValueError("a cache stores no gradients: decode under torch.no_grad() or torch.inference_mode()")
        if not self.length:  # an empty cache takes any shapes
            self._buffers = tuple(tensor[..., :0, :] for tensor in new)
        if len(new) != len(self._buffers):
            raise ValueError(f"the cache stores {len(self._buffers)} tensors per token, got {len(new)}")
        new_length = new[0].shape[-2]
        for buffer, tensor in zip(self._buffers, new, strict=True):
            shape = (*buffer.shape[:-2], new_length, buffer.shape[-1])
            if (tensor.shape, tensor.dtype, tensor.device) != (shape, buffer.dtype, buffer.device):
                raise ValueError(
                    f"tensors appended to the cache must be {list(shape)} of {buffer.dtype} on {buffer.device}, "
                    f"got {list(tensor.shape)} of {tensor.dtype} on {tensor.device}"
                )
        self._measured = min(self._measured, self.length)  # tokens may have been removed
        end, capacity = self.length + new_length, self._buffers[0].shape[-2]
        if end > capacity:
            added = (1 << (end - 1).bit_length()) - capacity  # up to the next power of two
            with torch.inference_mode(False):  # so that decoding can continue outside inference mode
                self._buffers = tuple(pad(buffer, (0, 0, 0, added)) for buffer in self._buffers)
        for buffer, tensor in zip(self._buffers, new, strict=True):
            buffer[..., self.length : end, :] = tensor
        self.length = end
        return tuple(buffer[..., :end, :] for buffer in self._buffers)

    def key_ball(self) -> KeyBall:
        """A ball around the cached keys, `key_ball` of `alibi_attention`. The first two tensors are keys and values.

        Each token is read once, so decoding can leave out keys without reading them. Raises ValueError if the cache is
        empty.

        >>> cache = KeyValueCache()
        >>> keys, values = cache.append(torch.zeros(1, 8, 3, 32), torch.zeros(1, 8, 3, 32))
        >>> cache.key_ball().radius.shape  # [batch, heads]
        torch.Size([1, 8])
        """
        if not self.length:
            raise ValueError("an empty cache has no ball of keys: append the keys and values of some tokens first")
        if self._measured < self.length:
            key, value = (buffer[..., self._measured : self.length, :] for buffer in self._buffers[:2])
            old = self._ball if self._measured else None
            self._ball = KeyBall.of(key, value) if old is None else old.including(key, value)
            self._measured = self.length
        assert self._ball is not None
        return self._ball
