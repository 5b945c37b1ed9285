"""From token ids to the next token: an embedding, a transformer, a head, and decoding with a cache."""

import math

import torch
from torch import Tensor, nn

from alibi_viz.distance import is_integer
from alibi_viz.models.key_value_cache import KeyValueCache
from alibi_viz.models.transformer import Transformer, TransformerConfig

__all__ = ["LanguageModel"]


class LanguageModel(nn.Module):
    """Token ids, integers [batch, length], to the logits of the next token, [batch, length, vocabulary].

    The numbers in a token vector start with standard deviation 0.5, comparable to a sinusoid's 0.7, so that added
    positions neither drown the tokens nor are drowned by them.

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

    def forward(self, tokens: Tensor, cache: list[KeyValueCache] | None = None) -> Tensor:
        if not isinstance(tokens, Tensor) or not is_integer(tokens.dtype):
            got = tokens.dtype if isinstance(tokens, Tensor) else type(tokens).__name__
            raise TypeError(f"tokens must be an integer tensor [batch, length], got {got}")
        if tokens.ndim != 2:
            raise ValueError(f"tokens must be [batch, length], got shape {list(tokens.shape)}")
        tokens = tokens.long()  # bytes are tokens too
        if tokens.device.type == "cpu" and tokens.numel() and not torch.compiler.is_compiling():
            low, high = (int(end) for end in tokens.aminmax())  # the embedding's own error does not name the id
            if low < 0 or high >= self.config.vocabulary:
                wrong = low if low < 0 else high
                raise ValueError(f"tokens must be between 0 and {self.config.vocabulary - 1}, got {wrong}")
        return self.head(self.transformer(self.embedding(tokens), cache))

    @torch.no_grad()
    def generate(
        self,
        tokens: Tensor,
        new_tokens: int,
        *,
        temperature: float = 1.0,
        use_cache: bool = True,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The tokens followed by `new_tokens` more, int64 [batch, length + new_tokens].

        Args:
            tokens: integers [batch, length], at least one token long.
            new_tokens: how many to add, 0 or more.
            temperature: divides the logits before a token is drawn; 0 takes the likeliest instead.
            use_cache: compute each token once, instead of all of them at each step. The result is the same.
            generator: draws the tokens.

        Raises TypeError for what is no number, ValueError when a value is out of range, or a learned table ends.

        >>> model = LanguageModel(TransformerConfig(num_layers=1, d_model=32, num_heads=4)).eval()
        >>> model.generate(torch.tensor([[72, 105]]), 5).shape
        torch.Size([1, 7])
        """
        if isinstance(tokens, Tensor) and (tokens.ndim != 2 or tokens.shape[1] < 1):
            raise ValueError(f"tokens must be [batch, length] with at least one token, got shape {list(tokens.shape)}")
        if isinstance(new_tokens, bool) or not isinstance(new_tokens, int):
            raise TypeError(f"new_tokens must be an integer, got {new_tokens!r}")
        if isinstance(temperature, bool) or not isinstance(temperature, int | float):
            raise TypeError(f"temperature must be a number, got {temperature!r}")
        if new_tokens < 0:
            raise ValueError(f"new_tokens must be 0 or more, got {new_tokens}")
        if not (temperature >= 0 and math.isfinite(temperature)):
            raise ValueError(f"temperature must be a finite number from 0 up, got {temperature!r}")
        cache = self.transformer.new_cache() if use_cache else None
        unseen = tokens
        for _ in range(new_tokens):
            logits = self(unseen if use_cache else tokens, cache)[:, -1]  # [batch, vocabulary]
            if temperature:
                below = logits - logits.amax(-1, keepdim=True)  # or a small temperature makes infinities
                unseen = (below / temperature).softmax(-1).multinomial(1, generator=generator)
            else:
                unseen = logits.argmax(-1, keepdim=True)
            tokens = torch.cat((tokens, unseen), dim=1)
        return tokens
