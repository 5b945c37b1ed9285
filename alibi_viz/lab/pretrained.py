"""A pretrained ALiBi model of the transformers library as a source for `AttentionExplorer`."""

from typing import Any

import torch
from torch import nn

from alibi_viz.adapters import pretrained_heads
from alibi_viz.lab.attention_sources import Reading

__all__ = ["PretrainedModel"]


class PretrainedModel:
    """A BLOOM, MPT or Falcon model with its tokenizer: the queries and keys of one of its layers.

        model = BloomModel.from_pretrained("bigscience/bloom-560m")
        tokenizer = AutoTokenizer.from_pretrained("bigscience/bloom-560m")
        widgets.AttentionExplorer(source=PretrainedModel(model, tokenizer))

    What is shown is what the model computes; `adapters.pretrained_heads` tells the two exceptions of Falcon. Raises
    ValueError for another family, and for a model with more heads than the explorer shows when it is read.
    """

    def __init__(self, model: nn.Module, tokenizer: Any) -> None:
        self.model, self.tokenizer = model, tokenizer
        config: Any = model.config
        self.contents: tuple[str, ...] = tuple(f"layer {layer + 1}" for layer in range(config.num_hidden_layers))
        self.num_heads: int | None = config.num_attention_heads
        pretrained_heads(model, torch.zeros(1, 1, dtype=torch.long, device=self._device), 0)  # raises for others

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device

    def read(self, text: str, content: str, num_heads: int, longest: int) -> Reading:
        """Read at most `longest` tokens. Raises ValueError for an unknown layer, another head count, or no token."""
        if content not in self.contents:
            raise ValueError(f"content must be one of {', '.join(self.contents)}, got {content!r}")
        if num_heads != self.num_heads:
            raise ValueError(f"num_heads must be {self.num_heads}, as the model has, got {num_heads}")
        ids = list(self.tokenizer(text)["input_ids"])
        if not ids:
            raise ValueError(f"text must have at least one token, got {text[:20]!r}")
        layer = self.contents.index(content)
        read = torch.tensor([ids[:longest]], device=self._device)
        query, key, slopes = (part.float().cpu() for part in pretrained_heads(self.model, read, layer))
        tokens = [str(token) for token in self.tokenizer.convert_ids_to_tokens(ids[:longest])]
        note = f"Content is that of a pretrained model, in layer {layer + 1} of {len(self.contents)}."
        return Reading(tokens, query, key, slopes, len(ids), note)
