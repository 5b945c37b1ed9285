"""A language model: embedding, transformer, output head, and text generation with a cache."""

import math

import torch
from torch import Tensor, nn

from alibi_viz.arguments import check_integer, check_number, check_tensor
from alibi_viz.models.config import TransformerConfig
from alibi_viz.models.key_value_cache import KeyValueCache
from alibi_viz.models.transformer import Transformer

__all__ = ["LanguageModel"]


class LanguageModel(nn.Module):
    """Maps token ids, integers [batch, length], to logits of the next token, [batch, length, vocabulary].

    Token vectors are initialized with standard deviation 0.5, comparable to the 0.7 of a sinusoid, so that tokens and
    added positions are on the same scale.

    Raises TypeError or ValueError when the tokens have another dtype or shape or are not in the vocabulary, and
    ValueError when they are longer than a table of learned positions.

    >>> config = TransformerConfig(num_layers=1, d_model=32, num_heads=4)
    >>> LanguageModel(config)(torch.zeros(2, 5, dtype=torch.long)).shape
    torch.Size([2, 5, 256])
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.d_model)
        nn.init.normal_(self.embedding.weight, std=0.5)
        self.transformer = Transformer(config)
        self.head = nn.Linear(config.d_model, config.vocabulary, bias=False)

    def is_defined_at(self, length: int) -> bool:
        """Whether the position method is defined for inputs of this many tokens.

        >>> LanguageModel(TransformerConfig(position="learned", max_length=64)).is_defined_at(65)
        False
        """
        return self.transformer.position.is_defined_at(length)

    def forward(self, tokens: Tensor, cache: list[KeyValueCache] | None = None, *, last: int | None = None) -> Tensor:
        """Logits of the next token: [batch, length, vocabulary], or only those of the `last` positions at the end."""
        check_tensor("tokens", tokens, "integer", "[batch, length]", ndim=2)
        tokens = tokens.long()  # nn.Embedding does not accept uint8
        if tokens.device.type == "cpu" and tokens.numel() and not torch.compiler.is_compiling():
            low, high = (int(end) for end in tokens.aminmax())  # the embedding's error would not name the id
            if low < 0 or high >= self.config.vocabulary:
                invalid = low if low < 0 else high
                raise ValueError(f"tokens must be between 0 and {self.config.vocabulary - 1}, got {invalid}")
        return self.head(self.transformer(self.embedding(tokens), cache, last=last))

    @torch.no_grad()
    def generate(
        self,
        tokens: Tensor,
        new_tokens: int,
        *,
        temperature: float = 1.0,
        use_cache: bool | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Generate `new_tokens` tokens after the given ones: int64 [batch, length + new_tokens].

        Args:
            tokens: integers [batch, length], with at least one token.
            new_tokens: number of tokens to add, 0 or more.
            temperature: divides the logits before sampling; 0 takes the most likely token instead.
            use_cache: process each token once, instead of all tokens at each step. The result is the same. By default,
                if the position method supports it.
            generator: random number generator for sampling.

        Raises TypeError for arguments of another type, and ValueError when a value is out of range, when the model is
        an encoder and uses a cache, when the position method supports no cache and `use_cache` is True, or when the
        text grows beyond the positions that are defined.

        >>> model = LanguageModel(TransformerConfig(num_layers=1, d_model=32, num_heads=4)).eval()
        >>> model.generate(torch.tensor([[72, 105]]), 5).shape
        torch.Size([1, 7])
        """
        check_tensor("tokens", tokens, "integer", "[batch, length]", ndim=2)
        if tokens.shape[1] < 1:
            raise ValueError(f"tokens must be [batch, length] with at least one token, got shape {list(tokens.shape)}")
        check_integer("new_tokens", new_tokens, 0)
        check_number("temperature", temperature)
        if not (temperature >= 0 and math.isfinite(temperature)):
            raise ValueError(f"temperature must be a finite number of at least 0, got {temperature!r}")
        if use_cache is None:
            use_cache = self.transformer.position.supports_cache
        cache = self.transformer.new_cache() if use_cache else None
        tokens = new = tokens.long()
        for _ in range(new_tokens):
            logits = self(new if use_cache else tokens, cache, last=1)[:, -1]  # [batch, vocabulary]
            if temperature:
                logits = logits - logits.amax(-1, keepdim=True)  # so that a small temperature cannot overflow
                new = (logits / temperature).softmax(-1).multinomial(1, generator=generator)
            else:
                new = logits.argmax(-1, keepdim=True)
            tokens = torch.cat((tokens, new), dim=1)
        return tokens
