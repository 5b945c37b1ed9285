"""The arguments of `alibi_attention`, checked once, and what all its implementations share."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from alibi_viz.arguments import (
    check_dropout,
    check_flag,
    check_number,
    check_slopes,
    check_tensor,
    is_mapped,
    levels,
)
from alibi_viz.bias import bias_from_positions, causal_mask, exact_dtype

# The radius of a ball is larger by this share of its center's norm, to cover rounding in float32.
ROUNDING = 1e-5
# Torch computes matrix products in these. It only stores numbers in others, such as float8.
_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


class KeyBall(NamedTuple):
    """A ball that contains all keys. With it, attention finds the keys it can skip (see `spans`).

    Center and radius are float32, or float64 for keys in float64.
    """

    center: Tensor  # [batch, key_heads, 1, head_dim]
    # [batch, key_heads], at least the distance of each key; inf if a key or value is not finite
    radius: Tensor

    @classmethod
    def of(cls, key: Tensor, value: Tensor, center: Tensor | None = None) -> "KeyBall":
        """A ball around keys [batch, key_heads, key, head_dim], whose values have the same shape.

        The center is by default the mean of every 16th key.
        """
        dtype = exact_dtype(key.dtype)
        if center is None:
            center = key[:, :, ::16].mean(2, keepdim=True, dtype=dtype)

        # Head by head, because the differences of all keys would take as much memory as the keys.
        radii = []
        for index, head in enumerate(key.unbind(1)):
            distances = (head.to(dtype) - center[:, index]).norm(dim=-1)
            radii.append(distances.amax(-1))
        radius = torch.stack(radii, dim=1) + ROUNDING * center.norm(dim=-1)[:, :, 0]

        is_finite = (radius + value.sum((2, 3), dtype=dtype)).isfinite()
        return cls(center, radius.masked_fill(~is_finite, math.inf))

    def including(self, key: Tensor, value: Tensor) -> "KeyBall":
        """The ball with more keys and values, each [batch, key_heads, new, head_dim]."""
        added = KeyBall.of(key, value, self.center)
        return KeyBall(self.center, self.radius.maximum(added.radius))


def autocast_dtype(tensor: Tensor) -> torch.dtype | None:
    """The dtype to which autocast casts a tensor before a matrix product; None if it doesn't."""
    device = tensor.device.type
    if device == "meta" or tensor.dtype == torch.float64 or not torch.is_autocast_enabled(device):
        return None
    return torch.get_autocast_dtype(device)


def _cast(tensor: Tensor) -> Tensor:
    return tensor.to(autocast_dtype(tensor) or tensor.dtype)


def _saveable(tensor: Tensor) -> Tensor:
    """Autograd cannot save tensors that were made in inference mode, but it can save a copy."""
    return tensor.clone() if tensor.is_inference() else tensor


class AttentionInputs(NamedTuple):
    """The arguments of `alibi_attention`, which documents them. Make them with `checked`."""

    query: Tensor
    key: Tensor
    value: Tensor
    slopes: Tensor | None
    causal: bool = True
    key_padding_mask: Tensor | None = None
    attn_mask: Tensor | None = None
    positions: Tensor | None = None
    scale: float | None = None
    dropout: float = 0.0
    tolerance: float | None = None
    key_ball: KeyBall | Callable[[], KeyBall] | None = None

    @classmethod
    def checked(
        cls, query: Tensor, key: Tensor, value: Tensor, slopes: Tensor | None, **options: Any
    ) -> "AttentionInputs":
        """Check the arguments, and cast query, key and value as torch's attention does."""
        inputs = cls(query, key, value, slopes, **options)
        inputs._check()

        inputs = inputs._replace(query=_cast(query), key=_cast(key), value=_cast(value))
        if inputs.key is not key:  # the ball contains the keys before rounding
            inputs = inputs._replace(key_ball=None)

        if inputs.needs_gradients and not torch.compiler.is_compiling():
            inputs = inputs._replace(
                query=_saveable(inputs.query),
                key=_saveable(inputs.key),
                value=_saveable(inputs.value),
                slopes=None if slopes is None else _saveable(slopes),
            )
        return inputs

    @property
    def query_length(self) -> int:
        return self.query.shape[2]

    @property
    def key_length(self) -> int:
        return self.key.shape[2]

    @property
    def group_size(self) -> int:
        """How many query heads share a key head."""
        return self.query.shape[1] // self.key.shape[1]

    @property
    def scaling(self) -> float:
        """The factor of q . k."""
        if self.scale is None:
            return 1 / math.sqrt(self.query.shape[-1])
        return 1.0 * self.scale

    @property
    def on_gpu(self) -> bool:
        return self.query.device.type not in ("cpu", "meta")

    @property
    def has_mask(self) -> bool:
        """Whether a query may have no visible key."""
        return self.key_padding_mask is not None or self.attn_mask is not None

    @property
    def inputs_need_gradients(self) -> bool:
        """Whether query, key or value asks for a gradient."""
        return self.query.requires_grad or self.key.requires_grad or self.value.requires_grad

    @property
    def needs_gradients(self) -> bool:
        """Whether autograd records this call."""
        if not torch.is_grad_enabled():
            return False
        has_learned_slopes = self.slopes is not None and self.slopes.requires_grad
        return self.inputs_need_gradients or has_learned_slopes

    @property
    def slopes_need_gradients(self) -> bool:
        """Whether autograd, or a transform of `torch.func`, records the slopes."""
        if self.slopes is None or not torch.is_grad_enabled():
            return False
        return any(level.requires_grad for level in levels(self.slopes))

    @property
    def maps_bias(self) -> bool:
        """Whether `vmap` maps a tensor on which the bias or the mask depends."""
        if torch.compiler.is_compiling():
            return False
        tensors = (self.slopes, self.positions, self.key_padding_mask, self.attn_mask)
        return any(tensor is not None and is_mapped(tensor) for tensor in tensors)

    def ball(self) -> KeyBall:
        """The ball around the keys: the given one, or one that is computed from them."""
        if self.key_ball is None:
            return KeyBall.of(self.key, self.value)
        ball = self.key_ball() if callable(self.key_ball) else self.key_ball
        if not isinstance(ball, KeyBall):
            raise TypeError(
                "key_ball must be a KeyBall, or a function that returns one, got "
                f"{type(ball).__name__}"
            )
        batch, key_heads, _, head_dim = self.key.shape
        expected = ([batch, key_heads, 1, head_dim], [batch, key_heads])
        shapes = (list(ball.center.shape), list(ball.radius.shape))
        if shapes != expected:
            raise ValueError(
                f"center and radius of key_ball must be {expected} to match key, got {shapes}"
            )
        return ball

    def key_positions(self) -> Tensor:
        """Positions of the keys, int64 [key] or [batch, key]. The queries have the last of them."""
        if self.positions is None:
            return torch.arange(self.key_length, device=self.key.device)
        return self.positions.long()

    def bias(self, dtype: torch.dtype) -> Tensor:
        """[1 or batch, heads, query, key]: computed in float32 or more, and cast last."""
        if self.slopes is None:
            return self.query.new_zeros(1, 1, self.query_length, self.key_length, dtype=dtype)
        keys = self.key_positions()
        queries = keys[..., self.key_length - self.query_length :]
        form = "relative" if self.causal else "symmetric"
        bias = bias_from_positions(self.slopes, queries, keys, form=form, dtype=dtype)
        return bias if bias.ndim == 4 else bias[None]

    def visible(self) -> Tensor:
        """Whether a query may attend to a key: bool, broadcastable to [batch, heads, query,
        key]."""
        device = self.query.device
        if self.causal:
            visible = causal_mask(self.query_length, self.key_length, device=device)[None, None]
        else:
            visible = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device)
        if self.key_padding_mask is not None:
            visible = visible & self.key_padding_mask[:, None, None, :]
        if self.attn_mask is not None:
            visible = visible & self.attn_mask
        return visible

    def fused_attention(self, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        """Call torch's fused attention with the dropout, scale and head groups of these inputs."""
        options |= {"dropout_p": self.dropout, "scale": self.scaling}
        if self.group_size > 1:  # a comparison as value would be symbolic in a compiled graph
            options["enable_gqa"] = True
        if autocast_dtype(query) is None:
            return scaled_dot_product_attention(query, key, value, **options)
        # The tensors are cast already (`checked`), and casting a float32 mask would round the bias.
        with torch.autocast(query.device.type, enabled=False):
            return scaled_dot_product_attention(query, key, value, **options)

    def _check(self) -> None:
        self._check_query_key_and_value()
        batch, heads, queries, _ = self.query.shape
        keys = self.key_length

        of_query = f", with a query [batch, heads, query, head_dim] of {list(self.query.shape)}"
        self._check_tensor("slopes", "floating-point", "[heads]", [heads], hint=of_query)
        if self.slopes is not None:
            check_slopes("slopes", self.slopes)
        self._check_tensor("key_padding_mask", "bool", "[batch, key]", [batch, keys])
        self._check_tensor("positions", "integer", "[key] or [batch, key]", [keys], [batch, keys])
        self._check_attn_mask([batch, heads, queries, keys])

        check_flag("causal", self.causal)
        check_dropout(self.dropout)
        if self.scale is not None:
            check_number("scale", self.scale)
        if self.tolerance is not None:
            expected = "above 0 and below 1, or None"
            check_number("tolerance", self.tolerance, expected, lambda number: 0 < number < 1)
        gives_ball = isinstance(self.key_ball, KeyBall) or callable(self.key_ball)
        if self.key_ball is not None and not gives_ball:
            raise TypeError(
                f"key_ball must be a KeyBall, or return one, got {type(self.key_ball).__name__}"
            )

    def _check_query_key_and_value(self) -> None:
        query = self.query
        key = self.key
        axes = "[batch, heads, length, head_dim]"
        check_tensor("query", query, "floating-point", axes, ndim=4)
        query_dtype = autocast_dtype(query) or query.dtype
        if query_dtype not in _DTYPES:
            raise TypeError(
                f"query must be float64, float32, float16 or bfloat16, got {query.dtype}"
            )
        for name, tensor in (("key", key), ("value", self.value)):
            check_tensor(name, tensor, "floating-point", axes, ndim=4)
            dtype = autocast_dtype(tensor) or tensor.dtype
            if dtype != query_dtype or tensor.device != query.device:
                expected = f"{query.dtype} on {query.device}"
                raise TypeError(
                    f"{name} must have the dtype and device of query, {expected}, got "
                    f"{tensor.dtype} on {tensor.device}"
                )

        batch, heads, queries, head_dim = query.shape
        _, key_heads, keys, _ = key.shape
        if heads < 1 or head_dim < 1:
            raise ValueError(
                f"query must have at least one head and one channel, got shape {list(query.shape)}"
            )
        if key.shape != (batch, key_heads, keys, head_dim) or key_heads < 1 or heads % key_heads:
            expected = f"[{batch}, {heads} or a divisor of it, {keys}, {head_dim}]"
            raise ValueError(
                f"key must be [batch, heads, key, head_dim] = {expected}, got shape "
                f"{list(key.shape)}"
            )
        if queries > keys:
            raise ValueError(f"query length must be at most the key length {keys}, got {queries}")
        if self.value.shape != key.shape:
            expected = f"[batch, heads, key, head_dim] = {list(key.shape)}"
            raise ValueError(f"value must be {expected}, got shape {list(self.value.shape)}")

    def _check_tensor(
        self, name: str, dtype: str, axes: str, *shapes: list[int], hint: str = ""
    ) -> None:
        """Check a tensor that is None or has one of the shapes, which the `hint` explains."""
        tensor = getattr(self, name)
        if tensor is None:
            return
        check_tensor(name, tensor, dtype, axes)
        shape = list(tensor.shape)
        # Compared one by one, because torch.compile doesn't look into `in`.
        if all(shape != allowed for allowed in shapes):
            expected = " or ".join(map(str, shapes))
            raise ValueError(f"{name} must be {axes} = {expected}, got shape {shape}{hint}")
        self._check_device(name, tensor)

    def _check_attn_mask(self, full_shape: list[int]) -> None:
        """Check that the mask is None or broadcasts: axes may be missing in front, or have size
        1."""
        mask = self.attn_mask
        if mask is None:
            return
        axes = "[batch, heads, query, key]"
        check_tensor("attn_mask", mask, "bool", axes)
        missing_axes = len(full_shape) - mask.ndim
        sizes = [1] * missing_axes + list(mask.shape)
        shape = [full if size == 1 else size for size, full in zip(sizes, full_shape, strict=False)]
        if missing_axes < 0 or shape != full_shape:
            raise ValueError(
                f"attn_mask must broadcast to {axes} = {full_shape}, got shape {list(mask.shape)}"
            )
        self._check_device("attn_mask", mask)

    def _check_device(self, name: str, tensor: Tensor) -> None:
        on_cpu = tensor.is_cpu and self.query.is_cpu  # faster than comparing devices
        if not on_cpu and tensor.device != self.query.device:
            raise ValueError(
                f"{name} must be on the device of query, {self.query.device}, got {tensor.device}"
            )


def _supports_everything(inputs: AttentionInputs) -> str | None:
    return None


class Backend(NamedTuple):
    """An exact implementation of ALiBi attention."""

    name: str  # the `backend` argument of `alibi_attention` that selects it
    attend: Callable[[AttentionInputs], Tensor]  # the output, [batch, heads, query, head_dim]
    # Why it can't compute a call; None if it can
    unsupported_reason: Callable[[AttentionInputs], str | None] = _supports_everything
