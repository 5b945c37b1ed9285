"""Key-value cache for decoding: store the keys and values of earlier tokens, and process only new tokens."""

import torch
from torch import Tensor

__all__ = ["KeyValueCache"]


class KeyValueCache:
    """Keys and values of one layer, each [..., length, channels]. The capacity grows by doubling.

    `append` takes the tensors of the new tokens and returns those of all tokens so far. ALiBi needs nothing else: its
    bias counts back from the last key, so cached keys never change.

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

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """Add the new tokens, and return the tensors of all tokens so far: views into the cache, one per argument."""
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in new):
            raise ValueError("a cache stores no gradients: decode under torch.no_grad() or torch.inference_mode()")
        if not self._buffers:
            self._buffers = tuple(_empty(tensor, 0) for tensor in new)
        new_length = new[0].shape[-2]
        for buffer, tensor in zip(self._buffers, new, strict=True):
            if _layout(buffer) != _layout(tensor) or tensor.shape[-2] != new_length:
                expected, got = _describe(buffer, new_length), _describe(tensor, tensor.shape[-2])
                raise ValueError(f"tensors appended to the cache must be {expected}, got {got}")
        end = self.length + new_length
        if end > self._buffers[0].shape[-2]:
            capacity = 1 << (end - 1).bit_length()  # the next power of two
            larger = tuple(_empty(tensor, capacity) for tensor in new)
            for target, buffer in zip(larger, self._buffers, strict=True):
                target[..., : self.length, :] = buffer[..., : self.length, :]
            self._buffers = larger
        for buffer, tensor in zip(self._buffers, new, strict=True):
            buffer[..., self.length : end, :] = tensor
        self.length = end
        return tuple(buffer[..., :end, :] for buffer in self._buffers)


def _empty(like: Tensor, length: int) -> Tensor:
    with torch.inference_mode(False):  # so that decoding can continue outside inference mode
        return torch.empty(*like.shape[:-2], length, like.shape[-1], dtype=like.dtype, device=like.device)


def _describe(tensor: Tensor, length: int) -> str:
    return f"{[*tensor.shape[:-2], length, tensor.shape[-1]]} of {tensor.dtype} on {tensor.device}"


def _layout(tensor: Tensor) -> tuple[object, ...]:
    """The sizes, dtype and device, which must be equal for cached and new tensors."""
    return (*tensor.shape[:-2], tensor.shape[-1], tensor.dtype, tensor.device)
