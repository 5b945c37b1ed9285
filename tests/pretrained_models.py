"""Small models of transformers' real classes with random weights, and a tokenizer of bytes."""

import os
from typing import Any

import pytest
import torch

if os.environ.get("CI") != "true":
    pytest.importorskip("transformers")

from transformers import (
    BloomConfig,
    BloomForCausalLM,
    FalconConfig,
    FalconForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    MptConfig,
    MptForCausalLM,
)

FAMILIES = ("bloom", "mpt", "falcon sdpa", "falcon eager", "falcon multi-query")
HEAD_DIM = 16


def small_model(family: str, *, vocabulary: int = 256, heads: int = 4) -> Any:
    """A model of two layers in evaluation mode: one of `FAMILIES`, or "gpt2", which has no ALiBi.

    Its weights are large enough that content matters.
    """
    torch.manual_seed(0)
    if family == "bloom":
        model = bloom(vocabulary, heads)
    elif family == "mpt":
        model = mpt(vocabulary, heads)
    elif family == "gpt2":
        model = gpt2(vocabulary, heads)
    elif family == "falcon sdpa":
        model = falcon(vocabulary, heads)
    elif family == "falcon eager":
        model = falcon(vocabulary, heads, implementation="eager")
    elif family == "falcon multi-query":
        model = falcon(vocabulary, heads, multi_query=True)
    else:
        raise ValueError(f"no such family: {family!r}")

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    model.generation_config.eos_token_id = None  # so that all sequences reach the same length
    return model.eval()


def bloom(vocabulary: int, heads: int) -> Any:
    config = BloomConfig(
        vocab_size=vocabulary,
        hidden_size=HEAD_DIM * heads,
        n_layer=2,
        n_head=heads,
    )
    return BloomForCausalLM(config)


def mpt(vocabulary: int, heads: int) -> Any:
    config = MptConfig(
        vocab_size=vocabulary,
        d_model=HEAD_DIM * heads,
        n_layers=2,
        n_heads=heads,
        max_seq_len=64,
    )
    return MptForCausalLM(config)


def gpt2(vocabulary: int, heads: int) -> Any:
    config = GPT2Config(
        vocab_size=vocabulary,
        n_embd=HEAD_DIM * heads,
        n_layer=2,
        n_head=heads,
    )
    return GPT2LMHeadModel(config)


def falcon(
    vocabulary: int, heads: int, *, implementation: str = "sdpa", multi_query: bool = False
) -> Any:
    config = FalconConfig(
        vocab_size=vocabulary,
        hidden_size=HEAD_DIM * heads,
        num_hidden_layers=2,
        num_attention_heads=heads,
        alibi=True,
        multi_query=multi_query,
    )
    return FalconForCausalLM._from_config(config, attn_implementation=implementation)


class ByteTokenizer:
    """The interface of a tokenizer that the lab needs, with one token per byte."""

    bos_token_id: int | None = None

    def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
        return {"input_ids": list(text.encode())}

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [chr(token) for token in ids]
