"""Small models of transformers' real classes with random weights, and a tokenizer of bytes."""

import os
from typing import Any

import pytest
import torch

if os.environ.get("CI") != "true":
    pytest.importorskip("transformers", reason="pip install transformers")

from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    FalconConfig,
    GPT2Config,
    MptConfig,
)

FAMILIES = ("bloom", "mpt", "falcon sdpa", "falcon eager", "falcon multi-query")
HEAD_DIM = 16


def small_model(family: str, *, vocabulary: int = 256, heads: int = 4) -> Any:
    """A model of two layers in evaluation mode: one of `FAMILIES`, or "gpt2", which has no ALiBi.

    Its weights are large enough that content matters.
    """
    # Each configuration also takes these names for what it calls "n_layer", "d_model" and so on.
    config = config_of(
        family,
        vocab_size=vocabulary,
        hidden_size=HEAD_DIM * heads,
        num_hidden_layers=2,
        num_attention_heads=heads,
    )
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    model.generation_config.eos_token_id = None  # so that all sequences reach the same length
    return model.eval()


def config_of(family: str, **sizes: int) -> Any:
    if family == "bloom":
        return BloomConfig(**sizes)
    if family == "mpt":
        return MptConfig(**sizes, max_seq_len=64)
    if family == "gpt2":
        return GPT2Config(**sizes)
    if family == "falcon sdpa":
        return FalconConfig(**sizes, alibi=True, multi_query=False)
    if family == "falcon eager":
        return FalconConfig(**sizes, alibi=True, multi_query=False, attn_implementation="eager")
    if family == "falcon multi-query":
        return FalconConfig(**sizes, alibi=True, multi_query=True)
    raise ValueError(f"no such family: {family!r}")


class ByteTokenizer:
    """The interface of a tokenizer that the lab needs, with one token per byte."""

    bos_token_id: int | None = None

    def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
        return {"input_ids": list(text.encode())}

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [chr(token) for token in ids]
