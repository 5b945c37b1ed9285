"""What attention keeps of the tokens it has seen, so that the next token costs one row instead of all of them."""

import torch
from torch import Tensor

__all__ = ["KeyValueCache"]


class KeyValueCache:
    """Keys and values of one layer, [..., length, channels]; room for them doubles, so appending is cheap.

    `append` takes the tensors of the new tokens and gives those of all tokens so far. ALiBi needs nothing else: the
    bias counts back from the last key, and what is cached never changes.

    Raises ValueError when what is appended does not fit what was, or when a gradient would have to flow through it.

    >>> cache = KeyValueCache()
    >>> for _ in range(3):
    ...     keys, values = cache.append(torch.zeros(1, 8, 1, 32), torch.zeros(1, 8, 1, 32))
    >>> keys.shape, cache.length
    (torch.Size([1, 8, 3, 32]), 3)
    """

    def __init__(self) -> None:
        self.length = 0
        self._room: tuple[Tensor, ...] = ()

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """All so far, views into the cache, one for each tensor given."""
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in new):
            raise ValueError("a cache keeps no gradients: decode under torch.no_grad() or torch.inference_mode()")
        if not self._room:
            self._room = tuple(_empty(tensor, 0) for tensor in new)
        more = new[0].shape[-2]
        for room, tensor in zip(self._room, new, strict=True):
            if _without_length(room) != _without_length(tensor) or tensor.shape[-2] != more:
                raise ValueError(
                    f"the cache holds {_said(room, self.length)} and is given {more} more, so "
                    f"{_said(tensor, tensor.shape[-2])} cannot be appended"
                )
        end = self.length + more
        if end > self._room[0].shape[-2]:
            size = 1 << (end - 1).bit_length()  # the next power of two
            grown = tuple(_empty(tensor, size) for tensor in new)
            for wide, room in zip(grown, self._room, strict=True):
                wide[..., : self.length, :] = room[..., : self.length, :]
            self._room = grown
        for room, tensor in zip(self._room, new, strict=True):
            room[..., self.length : end, :] = tensor
        self.length = end
        return tuple(room[..., :end, :] for room in self._room)


def _empty(like: Tensor, length: int) -> Tensor:
    with torch.inference_mode(False):  # so that decoding may go on outside of inference mode
        return torch.empty(*like.shape[:-2], length, like.shape[-1], dtype=like.dtype, device=like.device)


def _said(tensor: Tensor, length: int) -> str:
    return f"{[*tensor.shape[:-2], length, tensor.shape[-1]]} of {tensor.dtype} on {tensor.device}"


def _without_length(tensor: Tensor) -> tuple[object, ...]:
    return (*tensor.shape[:-2], tensor.shape[-1], tensor.dtype, tensor.device)
