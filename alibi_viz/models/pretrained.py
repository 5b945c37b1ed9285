"""Look into BLOOM, MPT and Falcon models of the transformers library, without importing it.

One adapter per family says where its attention is, and translates what each attention module
receives: `read` gives the bias that is added to q . k / sqrt(head_dim) and which keys are visible,
`write` is its inverse. A forward pre-hook on the attention modules is the only way into a model. It
can look (`attention_stats`) or change what it sees (`lab.modify`), with a padding mask, a cache,
eager or SDPA attention.

The adapters follow transformers 5.24.0 with its quirks: MPT always has a smallest slope of 1/256
and ignores `alibi_bias_max`. Falcon divides its bias by sqrt(head_dim), rounds to bfloat16, and
adds the bias twice if "eager".
"""

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from reprlib import repr as short
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from alibi_viz.bias import exact_dtype
from alibi_viz.slopes import alibi_slopes

# Names of the number of positions in the configurations of transformers
_LENGTHS = ("max_seq_len", "n_positions", "max_position_embeddings")
Inputs = dict[str, Any]  # the keyword arguments of an attention module
Model = TypeVar("Model", bound=nn.Module)


class Family:
    """How transformers writes the attention of a family of models. This base class is BLOOM's way.

    Each attention module gets a bias m j, [batch * heads, 1, key], and a mask to add, [batch, 1,
    query, key].

    Attributes:
        blocks: where a model has its layers.
        attention: where a layer has its attention module.
        projection: where that has its projection to queries, keys and values at once.
        output: where it has its output projection.
        heads: where it has its number of heads.
        kinds: the axis of queries, keys and values in the output of the projection, [batch, length,
            ...] with three axes behind.
    """

    blocks = "h"
    attention = "self_attention"
    projection = "query_key_value"
    output = "dense"
    heads = "num_heads"
    kinds = 3

    def layers(self, model: nn.Module) -> list[Any]:
        """The attention modules, first layer first."""
        blocks = getattr(base_model(model), self.blocks)
        return [getattr(block, self.attention) for block in blocks]

    def slopes(self, attention: Any) -> Tensor:
        """The slopes for the usual scale of q . k: float32 [heads]."""
        return alibi_slopes(getattr(attention, self.heads))

    def project(self, attention: Any, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each [batch, heads, length, head_dim].

        They are scaled for the factor 1 / sqrt(head_dim) of q . k.
        """
        fused = getattr(attention, self.projection)(hidden)
        query, key, value = self.split(attention, fused)
        return query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)

    def split(self, attention: Any, fused: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values from the output of the projection.

        Each is [batch, length, heads, head_dim].
        """
        return fused.unflatten(-1, (attention.num_heads, 3, -1)).unbind(self.kinds)

    def join(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """The inverse of `split`, if heads don't share keys."""
        return torch.stack([query, key, value], dim=self.kinds).flatten(2)

    def read(self, attention: Any, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """The bias that a module receives, and which keys are visible.

        The bias is [batch or 1, heads, 1 or query, key]. The other is bool [batch, 1, query, key].
        """
        mask = inputs["attention_mask"]
        bias = inputs["alibi"].unflatten(0, (len(mask), -1))
        return bias, _is_visible(mask)

    def write(self, attention: Any, inputs: Inputs, bias: Tensor, visible: Tensor) -> Inputs:
        """The inputs that have this bias and these visible keys.

        The bias may also be [batch, heads, query, key].
        """
        mask = bias.new_zeros(visible.shape).masked_fill(~visible, torch.finfo(bias.dtype).min)
        return inputs | {"alibi": bias.flatten(0, 1), "attention_mask": mask}


class Mpt(Family):
    """MPT receives one bias for the whole batch, and a mask that is True for hidden keys.

    The bias is [heads, 1, at least key].
    """

    blocks = "blocks"
    attention = "attn"
    projection = "Wqkv"
    output = "out_proj"
    heads = "n_heads"
    kinds = 2

    def split(self, attention: Any, fused: Tensor) -> tuple[Tensor, ...]:
        if attention.clip_qkv:
            fused = fused.clamp(-attention.clip_qkv, attention.clip_qkv)
        query, key, value = fused.unflatten(-1, (3, attention.n_heads, -1)).unbind(self.kinds)
        own_scale = attention.softmax_scale * math.sqrt(attention.head_dim)
        return query * own_scale, key, value

    def read(self, attention: Any, inputs: Inputs) -> tuple[Tensor, Tensor]:
        mask = inputs["attention_mask"]
        return inputs["position_bias"][None, ..., -mask.shape[-1] :], ~mask

    def write(self, attention: Any, inputs: Inputs, bias: Tensor, visible: Tensor) -> Inputs:
        if bool((bias != bias[:1]).any()):
            raise ValueError(
                "this changed MPT model needs sequences of equal length in a batch, because it "
                "adds the same bias to all: run them one at a time"
            )
        return inputs | {"position_bias": bias[0], "attention_mask": ~visible}


class Falcon(Family):
    """Falcon receives a mask that includes the bias, and the bias once more for eager attention."""

    def slopes(self, attention: Any) -> Tensor:
        rounded = super().slopes(attention).to(torch.bfloat16).float()
        return rounded / math.sqrt(attention.head_dim)

    def split(self, attention: Any, fused: Tensor) -> tuple[Tensor, ...]:
        query, key, value = attention._split_heads(fused)
        # With multi-query attention, there is one head of keys and values for all.
        key = key.expand(-1, -1, attention.num_heads, -1)
        value = value.expand(-1, -1, attention.num_heads, -1)
        return query, key, value

    def read(self, attention: Any, inputs: Inputs) -> tuple[Tensor, Tensor]:
        mask = inputs["attention_mask"]  # [batch, heads, query, key], with the bias
        visible = _is_visible(mask[:, :1])
        uses_sdpa = attention.config._attn_implementation == "sdpa"
        if uses_sdpa and not inputs.get("output_attentions"):
            return mask, visible
        batch, heads = mask.shape[:2]
        bias = inputs["alibi"].reshape(batch, heads, 1, -1) / math.sqrt(attention.head_dim)
        return mask + bias, visible

    def write(self, attention: Any, inputs: Inputs, bias: Tensor, visible: Tensor) -> Inputs:
        mask = bias.masked_fill(~visible, torch.finfo(bias.dtype).min)
        return inputs | {"alibi": torch.zeros_like(inputs["alibi"]), "attention_mask": mask}


FAMILIES = {"bloom": Family(), "falcon": Falcon(), "mpt": Mpt()}


def _is_visible(mask: Tensor) -> Tensor:
    """Where an additive mask hides nothing.

    To hide a key, transformers adds the lowest number of the dtype, or -inf.
    """
    return mask > torch.finfo(mask.dtype).min


def family_name(model: object) -> str:
    """The family of a model or of its configuration: "bloom", "falcon" or "mpt".

    Raises ValueError for another one, and for a Falcon model without ALiBi.
    """
    config: Any = getattr(model, "config", model)
    name = str(getattr(config, "model_type", type(model).__name__))
    if name not in FAMILIES:
        raise ValueError(f"model must be one of {', '.join(FAMILIES)}, got {name!r}")
    if name == "falcon" and not config.alibi:
        raise ValueError("this falcon model was configured without ALiBi")
    return name


def family_of(model: nn.Module) -> Family:
    """The adapter of a model. Raises as `family_name`."""
    return FAMILIES[family_name(model)]


def base_model(model: nn.Module) -> Any:
    """The model without its language-modeling head."""
    model = getattr(model, "_orig_mod", model)  # the one that `torch.compile` has wrapped
    return getattr(model, "transformer", model)


def longest_context(model: nn.Module) -> int | None:
    """The largest number of tokens that a model of transformers can read.

    None if it can read any number: with rotary positions, and with the ALiBi of BLOOM and Falcon.
    MPT has a largest number, because transformers makes its bias for `max_seq_len` tokens.
    """
    config: Any = model.config
    # `alibi` is a field of Falcon. BLOOM's configuration has none of these fields.
    if getattr(config, "rope_parameters", None) or getattr(config, "alibi", False):
        return None  # whatever `max_position_embeddings` says
    return _first_length(config, *_LENGTHS)


def training_length(model: nn.Module) -> int | None:
    """The training length in tokens according to the configuration of a model of transformers.

    None if it doesn't say.
    """
    return _first_length(getattr(model, "config", None), "seq_length", *_LENGTHS)


def _first_length(config: object, *names: str) -> int | None:
    """The first of these fields that is a length."""
    for name in names:
        length = getattr(config, name, None)
        if isinstance(length, int):
            return length
    return None


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Disable dropout inside a `with` block, and restore the mode of every module afterwards."""
    trained = [module for module in model.modules() if module.training]
    try:
        model.eval()
        yield
    finally:
        for module in trained:
            module.training = True


def shared_copy(model: Model, replaced: Mapping[nn.Module, nn.Module] | None = None) -> Model:
    """A copy of a model's modules that shares its parameters, buffers and configuration.

    Some modules may be `replaced`, {old: new}.
    """
    shared = (*model.parameters(), *model.buffers(), getattr(model, "config", None))
    memo: dict[int, object] = {id(part): part for part in shared}
    memo |= {id(old): new for old, new in (replaced or {}).items()}
    return copy.deepcopy(model, memo)  # deepcopy reuses the objects in its memo


@contextmanager
def hooked(modules: Iterable[nn.Module], hook: Callable[..., None]) -> Iterator[None]:
    """Call `hook(module, args, inputs)` before each of the modules runs.

    It sees what earlier hooks changed.
    """
    with ExitStack() as hooks:
        for module in modules:
            handle = module.register_forward_pre_hook(hook, with_kwargs=True)
            hooks.callback(handle.remove)
        yield


@torch.inference_mode()
def attention_inputs(model: nn.Module, input_ids: Tensor) -> list[Tensor]:
    """What each attention module receives: tensors [batch, length, width].

    The tokens [batch, length] have no padding.

    They come from a copy whose attention is the fused one of torch, which computes the same: with
    4,096 tokens it needs far less memory and time than eager attention. The model may be one from
    `lab.modify`.
    """
    family = family_of(model)
    model = shared_copy(model).eval()
    attentions = family.layers(model)
    for attention in attentions:
        attention.forward = partial(_fused_attention, family, attention)  # hooks still apply
    inputs: list[Tensor] = []

    def keep(_attention: nn.Module, args: Any, _inputs: Inputs) -> None:
        inputs.append(args[0])

    with hooked(attentions, keep):
        base_model(model)(input_ids, use_cache=False)
    return inputs


def _fused_attention(
    family: Family, attention: Any, hidden: Tensor, residual: Tensor | None = None, **inputs: Any
) -> tuple[Tensor, None]:
    """What the attention module of a family computes, without storing all weights."""
    query, key, value = family.project(attention, hidden)
    bias, visible = family.read(attention, inputs)
    dtype = exact_dtype(query.dtype)  # MPT's bias stays float32 in any model
    mask = torch.where(visible, bias, -math.inf).to(dtype)
    attended = scaled_dot_product_attention(query.to(dtype), key.to(dtype), value.to(dtype), mask)
    joined = attended.to(value.dtype).transpose(1, 2).flatten(2)  # [batch, length, width]
    output = getattr(attention, family.output)(joined)
    if residual is not None:
        output = output + residual
    return output, None


def token_ids(model: Any, tokenizer: Any, text: str, **options: bool) -> list[int]:
    """What a tokenizer returns for one text, at least one token. Raises as `lab.length_curve`."""
    if not callable(tokenizer):
        raise TypeError(
            "tokenizer must be one of transformers, or a function like it, got "
            f"{type(tokenizer).__name__}"
        )
    encoded = tokenizer(text, **options)
    # `tokenizer.encode` returns a list. Tensors come in a batch of one.
    tokens = encoded if isinstance(encoded, list) else encoded["input_ids"]
    ids = torch.as_tensor(tokens, dtype=torch.long).flatten().tolist()
    known = model.get_input_embeddings().num_embeddings
    if not ids or not 0 <= min(ids) <= max(ids) < known:
        expected = f"tokens of the model, from 0 to {known - 1}, for {text[:20]!r}"
        raise ValueError(f"the tokenizer must return {expected}, got {short(ids)}")
    return ids
