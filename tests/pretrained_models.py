"""Small models of transformers' real classes with random weights, and a tokenizer of bytes."""

import os
from typing import Any

import pytest
import torch

if os.environ.get("CI") != "true":
    pytest.importorskip("transformers")

import transformers
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    FalconConfig,
    FalconForCausalLM,
    MptConfig,
    MptForCausalLM,
)

FAMILIES = ("bloom", "mpt", "falcon sdpa", "falcon eager", "falcon multi-query")


def small_model(family: str, *, vocabulary: int = 256, heads: int = 4) -> Any:
    """Two layers with heads of 16; weights are large enough that content matters."""
    torch.manual_seed(0)
    width = 16 * heads
    if family == "bloom":
        model = BloomForCausalLM(
            BloomConfig(vocab_size=vocabulary, hidden_size=width, n_layer=2, n_head=heads)
        )
    elif family == "mpt":
        config = MptConfig(
            vocab_size=vocabulary, d_model=width, n_layers=2, n_heads=heads, max_seq_len=64
        )
        model = MptForCausalLM(config)
    elif family == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=vocabulary, n_embd=width, n_layer=2, n_head=heads
        )
        model = transformers.GPT2LMHeadModel(config)
    else:
        sizes = {"hidden_size": width, "num_hidden_layers": 2, "num_attention_heads": heads}
        config = FalconConfig(
            vocab_size=vocabulary, **sizes, alibi=True, multi_query=family == "falcon multi-query"
        )
        implementation = "eager" if family == "falcon eager" else "sdpa"
        model = FalconForCausalLM._from_config(config, attn_implementation=implementation)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    model.generation_config.eos_token_id = None  # so that all sequences reach the same length
    return model.eval()


class ByteTokenizer:
    """The interface of a tokenizer that the lab needs, with one token per byte."""

    bos_token_id: int | None = None

    def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
        return {"input_ids": list(text.encode())}

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [chr(each) for each in ids]
