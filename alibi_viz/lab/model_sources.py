"""Sources of attention that run a model over a text: a `LanguageModel` of this package, or a pretrained one."""

import importlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from alibi_viz.lab.attention_sources import Reading, check_reading
from alibi_viz.lab.length_curve import token_ids
from alibi_viz.models import LanguageModel
from alibi_viz.models.positions.relative import Alibi
from alibi_viz.pretrained import family_name, family_of, layer_inputs, longest_context, shared_copy

VISIBLE_BYTES = {0x20: "␣", 0x0A: "↵", 0x09: "⇥"}


class ModelRun:
    """A model that reads the first tokens of a text, layer by layer. Threads may share it.

    It keeps what each layer's attention received, tokens x width numbers per layer, so that each of those layers can be
    read at once: 16 MiB per layer for 4,096 tokens and a width of 1,024. `inputs` yields that, first layer first;
    `heads` computes queries, keys and slopes from a layer, counted from 0, and what it received. `total` is the number
    of tokens in the whole text, and `note` is `Reading.note` with "{layer}" for the layer.
    """

    def __init__(
        self,
        tokens: list[str],
        total: int,
        *,
        num_layers: int,
        inputs: Iterator[Tensor],
        heads: Callable[[int, Tensor], tuple[Tensor, Tensor, Tensor]],
        note: str,
    ) -> None:
        self.tokens, self.total, self.num_layers = tokens, total, num_layers
        self._inputs, self._heads, self._note = inputs, heads, note
        self._received: list[Tensor] = []
        self._failure: BaseException | None = None
        self._lock = threading.Lock()

    @property
    def done(self) -> int:
        """The number of layers that can be read."""
        return len(self._received)

    def steps(self, layer: int) -> Iterator[int]:
        """Run the model up to a layer, one at each step, and yield how many are done. Nothing is computed twice.

        An error of the model ends the run: it is raised again by every later step.
        """
        while self.done <= layer:
            with self._lock, torch.inference_mode():
                if self._failure is not None:
                    raise self._failure
                if self.done <= layer:  # else another thread has run it
                    try:
                        self._received.append(next(self._inputs))
                    except BaseException as error:
                        self._failure = error
                        raise
            yield self.done

    @torch.inference_mode()
    def read(self, layer: int) -> Reading:
        """The tokens, queries and keys of a layer. Runs the model up to it. Raises ValueError if they aren't finite."""
        for _ in self.steps(layer):
            pass
        query, key, slopes = (part.float().cpu() for part in self._heads(layer, self._received[layer]))
        if not bool((query.isfinite() & key.isfinite()).all()):
            raise ValueError("the model's queries and keys must be finite: its training has diverged")
        return Reading(self.tokens, query, key, slopes, self.total, self._note.format(layer=layer + 1))


class ModelSource:
    """Base class of sources that run a model. `start` lets one run serve all layers, and be spread over time."""

    def __init__(self, model: Any, num_layers: int, num_heads: int | None) -> None:
        self.model, self.num_heads = model, num_heads
        self.contents: tuple[str, ...] = tuple(f"layer {layer + 1}" for layer in range(num_layers))

    def start(self, text: str, longest: int) -> ModelRun:
        """Prepare to read at most `longest` tokens; no layer runs yet. Raises ValueError for an empty text."""
        raise NotImplementedError

    def read(self, text: str, content: str, num_heads: int, longest: int) -> Reading:
        check_reading(self, content, num_heads)
        return self.start(text, longest).read(self.contents.index(content))


class ByteModel(ModelSource):
    """The bytes of a text, and the queries and keys of a layer of a `LanguageModel`. Raises ValueError without ALiBi.

    >>> from alibi_viz.lab.model_sources import ByteModel
    >>> source = ByteModel(lab.make_model("alibi"))
    >>> source.contents, source.num_heads
    (('layer 1', 'layer 2'), 8)
    >>> source.read("to be", "layer 2", num_heads=8, longest=48).tokens
    ['t', 'o', '␣', 'b', 'e']
    """

    def __init__(self, model: LanguageModel) -> None:
        if not isinstance(model.transformer.position, Alibi):
            raise ValueError(f"the model must have position 'alibi', got {model.config.position!r}")
        super().__init__(model, model.config.num_layers, model.config.num_heads)

    def start(self, text: str, longest: int) -> ModelRun:
        data = list(text.encode("utf-8", "replace"))
        if not data:
            raise ValueError("text must have at least one byte, got ''")
        model = shared_copy(self.model).eval()  # the model itself can be trained meanwhile
        blocks: list[Any] = list(model.transformer.blocks)  # Any: torch does not know the types of submodules

        def inputs() -> Iterator[Tensor]:
            x = model.embedding(torch.tensor([data[:longest]], device=model.head.weight.device))  # no positions yet
            for block in blocks:
                yield block.norm_attention(x)
                x = block(x)

        def heads(layer: int, received: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            attention = blocks[layer].attention
            query, key, _ = attention.heads(received)
            return query, key, attention.position.slopes

        trained = "the layers below it run as they were trained"
        note = f"Content comes from layer {{layer}} of {len(blocks)} of the model; {trained}. Tokens are bytes."
        tokens = [_byte(value) for value in data[:longest]]
        return ModelRun(tokens, len(data), num_layers=len(blocks), inputs=inputs(), heads=heads, note=note)


class PretrainedModel(ModelSource):
    """The tokens of a text, and the queries and keys of one layer of a BLOOM, MPT or Falcon model.

    For `widgets.AttentionExplorer`, give the name of a model, or a model and a tokenizer that you have loaded:

        widgets.AttentionExplorer(source="bigscience/bloom-560m")
        widgets.AttentionExplorer(source=lab.PretrainedModel(model, tokenizer))

    The result equals what the model computes, with two exceptions for Falcon: it rounds biases to bfloat16, and eager
    attention adds them twice. Raises ValueError for another family of models, or one without ALiBi.
    """

    def __init__(self, model: nn.Module, tokenizer: Any) -> None:
        family = family_of(model)
        layers = family.layers(model)
        super().__init__(model, len(layers), len(family.slopes(layers[0])))
        self.tokenizer = tokenizer

    @classmethod
    def from_pretrained(cls, name: str) -> "PretrainedModel":
        """Load a model and its tokenizer with transformers, from a folder or from its cache of downloaded models.

        Nothing is downloaded. Raises ImportError without transformers, and ValueError if the model is not on this
        machine, cannot be loaded, belongs to another family or has no ALiBi. The family and ALiBi are checked in its
        configuration, before the weights are loaded.
        """
        try:
            transformers: Any = importlib.import_module("transformers")
        except ImportError as error:
            raise ImportError(f"to load the model {name!r}, install transformers: pip install transformers") from error
        family_name(_load(transformers.AutoConfig, name))
        tokenizer = _load(transformers.AutoTokenizer, name)
        return cls(_load(transformers.AutoModel, name), tokenizer)

    def start(self, text: str, longest: int) -> ModelRun:
        ids = token_ids(self.model, self.tokenizer, text)
        read = ids[: min(longest, longest_context(self.model) or longest)]
        raw = self.tokenizer.convert_ids_to_tokens(read)
        tokens = [_decoded(self.tokenizer, at) or str(token) for at, token in zip(read, raw, strict=True)]
        family = family_of(self.model)
        layers = family.layers(self.model)

        def heads(layer: int, received: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            query, key, _ = family.project(layers[layer], received)
            return query, key, family.slopes(layers[layer])

        inputs = layer_inputs(self.model, torch.tensor([read], device=next(self.model.parameters()).device))
        note = f"Content comes from layer {{layer}} of {len(layers)} of a pretrained model."
        return ModelRun(tokens, len(ids), num_layers=len(layers), inputs=inputs, heads=heads, note=note)


def _load(kind: Any, name: str) -> Any:
    """What a class of transformers loads by this name, without a network. Raises ValueError if it can't."""
    try:
        return kind.from_pretrained(name, local_files_only=True)
    except (ImportError, KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        if os.path.isdir(name):  # pathlib raises for a long name
            raise ValueError(f"cannot load a model from the folder {name!r}: {error}") from error
        if isinstance(error, ImportError):  # a library that the model's tokenizer needs, for example
            raise ValueError(f"cannot load the model {name!r}: {error}") from error
        raise ValueError(
            f"the model {name!r} is neither a folder nor among the downloaded models of this machine; with a "
            f"network, download it once: hf download {name}"
        ) from error


def _byte(value: int) -> str:
    """A byte as its ASCII character, or in hexadecimal."""
    return VISIBLE_BYTES.get(value) or (chr(value) if 0x20 < value < 0x7F else f"{value:02x}")


def _decoded(tokenizer: Any, token: int) -> str:
    """The text of a token with visible spaces; empty if it is part of a character, or the tokenizer cannot decode."""
    text = tokenizer.decode([token]) if hasattr(tokenizer, "decode") else ""
    return "" if "\N{REPLACEMENT CHARACTER}" in text else text.replace(" ", VISIBLE_BYTES[0x20])
