"""What all implementations of attention share: the checked arguments of a call, and the `Backend`
record."""

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
    levels,
)
from alibi_viz.bias import bias_from_positions, causal_mask, exact_dtype

# A ball is wider by this share of its center's norm, which exceeds the rounding error of float32
# here
ROUNDING = 1e-5


class KeyBall(NamedTuple):
    """A ball that contains all keys, from which attention finds out which keys it can skip (see
    `spans`)."""

    center: Tensor  # [batch, key_heads, 1, head_dim], float32, or float64 for keys in float64
    # [batch, key_heads], at least the distance of each key; inf if a key or value is not finite
    radius: Tensor

    @classmethod
    def of(cls, key: Tensor, value: Tensor, center: Tensor | None = None) -> "KeyBall":
        """A ball for keys and values [batch, key_heads, key, head_dim], by default around the mean
        of some keys."""
        dtype = exact_dtype(key.dtype)
        center = key[:, :, ::16].mean(2, keepdim=True, dtype=dtype) if center is None else center
        # head by head, to save memory
        distances = [
            (head.to(dtype) - center[:, index]).norm(dim=-1)
            for index, head in enumerate(key.unbind(1))
        ]
        radius = (
            torch.stack([each.amax(-1) for each in distances], dim=1)
            + ROUNDING * center.norm(dim=-1)[:, :, 0]
        )
        return cls(
            center,
            radius.masked_fill(~(radius + value.sum((2, 3), dtype=dtype)).isfinite(), math.inf),
        )

    def including(self, key: Tensor, value: Tensor) -> "KeyBall":
        """The ball with more keys and values, each [batch, key_heads, new, head_dim]."""
        return KeyBall(self.center, self.radius.maximum(KeyBall.of(key, value, self.center).radius))


def autocast_dtype(tensor: Tensor) -> torch.dtype | None:
    """The dtype to which autocast casts a tensor before a matrix product; None if it keeps its
    dtype."""
    device = tensor.device.type
    if device == "meta" or tensor.dtype == torch.float64 or not torch.is_autocast_enabled(device):
        return None
    return torch.get_autocast_dtype(device)


class AttentionInputs(NamedTuple):
    """The arguments of `alibi_attention`, which documents them. `AttentionInputs.checked` is the
    door."""

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
    def checked(cls, *arguments: Any, **options: Any) -> "AttentionInputs":
        """Check the arguments, and cast query, key and value as torch's fused attention does under
        autocast."""
        inputs = cls(*arguments, **options)
        inputs._check()
        query, key, value = (each.to(autocast_dtype(each) or each.dtype) for each in inputs[:3])
        ball = inputs.key_ball if key is inputs.key else None  # of the keys before rounding
        inputs = inputs._replace(query=query, key=key, value=value, key_ball=ball)
        if torch.compiler.is_compiling() or not inputs.needs_gradients:
            return inputs
        named = zip(
            cls._fields[:4], inputs[:4], strict=True
        )  # autograd can't save tensors of inference mode
        saved: dict[str, Any] = {
            name: t.clone() for name, t in named if t is not None and t.is_inference()
        }
        return inputs._replace(**saved)

    @property
    def query_length(self) -> int:
        return self.query.shape[2]

    @property
    def key_length(self) -> int:
        return self.key.shape[2]

    @property
    def group_size(self) -> int:  # query heads that share a key head
        return self.query.shape[1] // self.key.shape[1]

    @property
    def scaling(self) -> float:  # of q . k
        return 1 / math.sqrt(self.query.shape[-1]) if self.scale is None else 1.0 * self.scale

    @property
    def on_gpu(self) -> bool:
        return self.query.device.type not in ("cpu", "meta")

    @property
    def has_mask(self) -> bool:  # so a query may have no visible key
        return self.key_padding_mask is not None or self.attn_mask is not None

    @property
    def needs_gradients(self) -> bool:  # whether autograd records this call
        return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in self[:4])

    @property
    def slopes_need_gradients(self) -> bool:
        if self.slopes is None or not torch.is_grad_enabled():
            return False
        return any(level.requires_grad for level in levels(self.slopes))

    @property
    def maps_bias(self) -> bool:  # by vmap
        if torch.compiler.is_compiling():
            return False
        parts = self.slopes, self.positions, self.key_padding_mask, self.attn_mask
        return any(
            part is not None and torch._C._functorch.is_batchedtensor(part) for part in parts
        )

    def ball(self) -> KeyBall:
        """The ball around the keys: that given, or computed from the tensors."""
        if self.key_ball is None:
            return KeyBall.of(self.key, self.value)
        ball = self.key_ball() if callable(self.key_ball) else self.key_ball
        if not isinstance(ball, KeyBall):
            raise TypeError(
                "key_ball must be a KeyBall, or a function that returns one, got "
                f"{type(ball).__name__}"
            )
        batch, heads, _, head_dim = self.key.shape
        got = list(ball.center.shape), list(ball.radius.shape)
        if got != (expected := ([batch, heads, 1, head_dim], [batch, heads])):
            raise ValueError(
                f"center and radius of key_ball must be {expected} to match key, got {got}"
            )
        return ball

    def key_positions(self) -> Tensor:
        """Positions of the keys, int64 [key] or [batch, key]; the last of them are those of the
        queries."""
        given = self.positions
        return (
            torch.arange(self.key_length, device=self.key.device) if given is None else given.long()
        )

    def bias(self, dtype: torch.dtype) -> Tensor:
        """[1 or batch, heads, query, key]: computed in float32 or more, and cast last."""
        if self.slopes is None:
            return self.query.new_zeros(1, 1, self.query_length, self.key_length, dtype=dtype)
        keys, form = self.key_positions(), "relative" if self.causal else "symmetric"
        queries = keys[..., self.key_length - self.query_length :]
        bias = bias_from_positions(self.slopes, queries, keys, form=form, dtype=dtype)
        return bias if bias.ndim == 4 else bias[None]

    def visible(self) -> Tensor:
        """True where a query may attend to a key: bool, broadcastable to [batch, heads, query,
        key]."""
        visible = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=self.query.device)
        if self.causal:
            visible = causal_mask(self.query_length, self.key_length, device=self.query.device)[
                None, None
            ]
        if self.key_padding_mask is not None:
            visible = visible & self.key_padding_mask[:, None, None, :]
        return visible if self.attn_mask is None else visible & self.attn_mask

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
        query, key = self.query, self.key
        for name, tensor in zip(("query", "key", "value"), self[:3], strict=True):
            check_tensor(name, tensor, "floating-point", "[batch, heads, length, head_dim]", ndim=4)
            dtype, wanted = (autocast_dtype(each) or each.dtype for each in (tensor, query))
            if dtype != wanted or tensor.device != query.device:
                expected, got = (f"{each.dtype} on {each.device}" for each in (query, tensor))
                raise TypeError(
                    f"{name} must have the dtype and device of query, {expected}, got {got}"
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
        self._check_shape("value", "floating-point", "[batch, heads, key, head_dim]", [*key.shape])
        self._check_shape("slopes", "floating-point", "[heads]", [heads])
        self._check_shape("key_padding_mask", "bool", "[batch, key]", [batch, keys])
        self._check_shape("positions", "integer", "[key] or [batch, key]", [keys], [batch, keys])
        axes = [batch, heads, queries, keys]
        self._check_shape("attn_mask", "bool", "[batch, heads, query, key]", axes, broadcasts=True)
        if self.slopes is not None:
            check_slopes("slopes", self.slopes)
        check_flag("causal", self.causal)
        check_dropout(self.dropout)
        if self.scale is not None:
            check_number("scale", self.scale)
        if self.tolerance is not None:
            check_number(
                "tolerance", self.tolerance, "between 0 and 1, or None", lambda share: 0 < share < 1
            )
        if not (
            self.key_ball is None or isinstance(self.key_ball, KeyBall) or callable(self.key_ball)
        ):
            raise TypeError(
                f"key_ball must be a KeyBall, or return one, got {type(self.key_ball).__name__}"
            )

    def _check_shape(
        self, name: str, dtype: str, axes: str, *shapes: list[int], broadcasts: bool = False
    ) -> None:
        """Check a tensor that is None or has one of the shapes; if it broadcasts, axes may be
        missing or of size 1."""
        if (tensor := getattr(self, name)) is None:
            return
        check_tensor(name, tensor, dtype, axes)
        shape = list(tensor.shape)
        if broadcasts and len(shape) <= len(shapes[0]):
            sizes = [1] * (len(shapes[0]) - len(shape)) + shape
            shape = [
                full if size == 1 else size for size, full in zip(sizes, shapes[0], strict=True)
            ]
        if all(shape != each for each in shapes):  # torch.compile doesn't look into `in`
            expected = (
                f"{'broadcast to' if broadcasts else 'be'} {axes} = {' or '.join(map(str, shapes))}"
            )
            raise ValueError(f"{name} must {expected}, got shape {list(tensor.shape)}")
        if not (tensor.is_cpu and self.query.is_cpu) and tensor.device != self.query.device:
            raise ValueError(
                f"{name} must be on the device of query, {self.query.device}, got {tensor.device}"
            )


class Backend(NamedTuple):
    """An exact implementation of ALiBi attention."""

    name: str  # the `backend` argument of `alibi_attention` that selects it
    attend: Callable[
        [AttentionInputs], Tensor
    ]  # computes the output, [batch, heads, query, head_dim]
    unsupported_reason: Callable[[AttentionInputs], str | None] = lambda inputs: (
        None
    )  # why it can't compute these
