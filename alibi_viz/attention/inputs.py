"""The arguments of `alibi_attention`, their checks, and what all its implementations share."""

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
    is_transformed,
)
from alibi_viz.bias import bias_from_positions, causal_mask, exact_dtype

# The radius of a ball is larger by this share of its center's norm, to cover rounding in float32.
ROUNDING = 1e-5


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


class AttentionInputs(NamedTuple):
    """The arguments of `alibi_attention`, which documents them.

    A call from outside is checked by `checked`; layers, whose arguments fit, make theirs without.
    """

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
        """Arguments of a user. Raises TypeError and ValueError as `alibi_attention` does."""
        inputs = cls(query, key, value, slopes, **options)
        _check_query_key_and_value(query, key, value)
        _check_bias_and_mask(inputs)

        scale = inputs.scale
        tolerance = inputs.tolerance
        key_ball = inputs.key_ball
        if scale is not None:
            scale = check_number("scale", scale)
        if tolerance is not None:
            expected = "above 0 and below 1, or None"
            tolerance = check_number("tolerance", tolerance, expected, lambda t: 0 < t < 1)
        if not (key_ball is None or isinstance(key_ball, KeyBall) or callable(key_ball)):
            raise TypeError(
                f"key_ball must be a KeyBall, or return one, got {type(key_ball).__name__}"
            )
        dropout = check_dropout(inputs.dropout)
        return inputs._replace(scale=scale, dropout=dropout, tolerance=tolerance)

    def cast(self) -> "AttentionInputs":
        """Query, key and value in the dtype of autocast, as torch's attention casts them."""
        dtype = autocast_dtype(self.query)
        if dtype is None:
            return self
        # The ball contains the keys before rounding.
        key_ball = self.key_ball if self.key.dtype == dtype else None
        return self._replace(
            query=self.query.to(dtype),
            key=self.key.to(dtype),
            value=self.value.to(dtype),
            key_ball=key_ball,
        )

    def saveable(self) -> "AttentionInputs":
        """Copies of tensors that were made in inference mode, which autograd cannot save."""
        if not self.needs_gradients or torch.compiler.is_compiling():
            return self
        tensors = {}
        for name in ("query", "key", "value", "slopes"):
            tensor = getattr(self, name)
            if tensor is not None and tensor.is_inference():
                tensors[name] = tensor.clone()
        return self._replace(**tensors)

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
        return self.slopes_need_gradients or (
            torch.is_grad_enabled() and self.inputs_need_gradients
        )

    @property
    def slopes_need_gradients(self) -> bool:
        """Whether autograd records the slopes."""
        return torch.is_grad_enabled() and self.slopes is not None and self.slopes.requires_grad

    @property
    def transforms_bias(self) -> bool:
        """Whether a transform of `torch.func` has wrapped what the bias or the mask depends on."""
        tensors = (self.slopes, self.positions, self.key_padding_mask, self.attn_mask)
        return any(tensor is not None and is_transformed(tensor) for tensor in tensors)

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
        # The tensors are cast already (`cast`), and casting a float32 mask would round the bias.
        with torch.autocast(query.device.type, enabled=False):
            return scaled_dot_product_attention(query, key, value, **options)


def _check_query_key_and_value(query: Tensor, key: Tensor, value: Tensor) -> None:
    axes = "[batch, heads, length, head_dim]"
    check_tensor("query", query, "floating-point", axes, ndim=4)
    for name, tensor in (("key", key), ("value", value)):
        check_tensor(name, tensor, "floating-point", axes, ndim=4)
        has_dtype = tensor.dtype == query.dtype
        if not has_dtype:  # autocast casts all but float64 to one dtype
            has_dtype = None not in (autocast_dtype(query), autocast_dtype(tensor))
        if not has_dtype or tensor.device != query.device:
            raise TypeError(
                f"{name} must have the dtype and device of query, {query.dtype} on {query.device}, "
                f"got {tensor.dtype} on {tensor.device}"
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
            f"key must be [batch, heads, key, head_dim] = {expected}, got shape {list(key.shape)}"
        )
    if queries > keys:
        raise ValueError(f"query length must be at most the key length {keys}, got {queries}")
    if value.shape != key.shape:
        expected = f"[batch, heads, key, head_dim] = {list(key.shape)}"
        raise ValueError(f"value must be {expected}, got shape {list(value.shape)}")


def _check_bias_and_mask(inputs: AttentionInputs) -> None:
    batch, heads, queries, _ = inputs.query.shape
    keys = inputs.key_length
    check_flag("causal", inputs.causal)
    if inputs.slopes is not None:
        check_slopes("slopes", inputs.slopes)
        # The most usual mistake
        is_transposed = inputs.slopes.shape != (heads,) and inputs.slopes.shape == (queries,)
        question = ": is it [batch, length, heads, head_dim]?" if is_transposed else ""
        shape = f"[batch, heads, query, head_dim] of {list(inputs.query.shape)}{question}"
        _check_shape(inputs, "slopes", "[heads]", [heads], hint=f", with a query {shape}")
    if inputs.key_padding_mask is not None:
        check_tensor("key_padding_mask", inputs.key_padding_mask, "bool", "[batch, key]")
        _check_shape(inputs, "key_padding_mask", "[batch, key]", [batch, keys])
    if inputs.positions is not None:
        axes = "[key] or [batch, key]"
        check_tensor("positions", inputs.positions, "integer", axes)
        _check_shape(inputs, "positions", axes, [keys], [batch, keys])

    mask = inputs.attn_mask
    if mask is not None:
        axes = "[batch, heads, query, key]"
        check_tensor("attn_mask", mask, "bool", axes)
        # Axes may be missing in front, or have size 1.
        full_shape = [batch, heads, queries, keys]
        sizes = [1] * (4 - mask.ndim) + list(mask.shape)
        of_each_axis = zip(sizes, full_shape, strict=False)
        broadcast = [full if size == 1 else size for size, full in of_each_axis]
        if len(sizes) > 4 or broadcast != full_shape:
            raise ValueError(
                f"attn_mask must broadcast to {axes} = {full_shape}, got shape {list(mask.shape)}"
            )
        _check_device(inputs, "attn_mask")


def _check_shape(
    inputs: AttentionInputs, name: str, axes: str, *shapes: list[int], hint: str = ""
) -> None:
    """Check for one of the shapes, which the `hint` explains, and for the device of the query."""
    shape = list(getattr(inputs, name).shape)
    # Compared one by one, because torch.compile doesn't look into `in`.
    if all(shape != allowed for allowed in shapes):
        expected = " or ".join(map(str, shapes))
        raise ValueError(f"{name} must be {axes} = {expected}, got shape {shape}{hint}")
    _check_device(inputs, name)


def _check_device(inputs: AttentionInputs, name: str) -> None:
    device = getattr(inputs, name).device
    if device != inputs.query.device:
        raise ValueError(
            f"{name} must be on the device of query, {inputs.query.device}, got {device}"
        )


def _supports_everything(inputs: AttentionInputs) -> str | None:
    return None


class Backend(NamedTuple):
    """An exact implementation of ALiBi attention."""

    name: str  # the `backend` argument of `alibi_attention` that selects it
    attend: Callable[[AttentionInputs], Tensor]  # the output, [batch, heads, query, head_dim]
    # Why it can't compute a call; None if it can
    unsupported_reason: Callable[[AttentionInputs], str | None] = _supports_everything
