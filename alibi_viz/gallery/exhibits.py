"""The list of what hangs in the gallery, for a lesson to walk along."""

from dataclasses import dataclass

__all__ = ["EXHIBITS", "Exhibit"]


@dataclass(frozen=True)
class Exhibit:
    """One rule of another system.

    Attributes:
        name: how a lesson may call it.
        system: whose code it is, with its version or date.
        source: where to read it.
        fault: what is wrong, in a sentence.
        rule: the function in `alibi_viz.gallery` that computes it.
    """

    name: str
    system: str
    source: str
    fault: str
    rule: str


_GITHUB = "https://github.com"

EXHIBITS = (
    Exhibit(
        "bias before scaling",
        "labml, 28 August 2021 to 17 July 2022",
        f"{_GITHUB}/labmlai/annotated_deep_learning_paper_implementations/blob/e06a89e2/labml_nn/transformers/alibi/__init__.py",
        "the bias is divided by sqrt(head_dim) with the content, so slope 1/2 acts as 0.088 at head_dim 32",
        "labml_2021",
    ),
    Exhibit(
        "inverted recency",
        "zeta, November 2025",
        f"{_GITHUB}/kyegomez/zeta/blob/fe82c50/zeta/nn/biases/alibi.py",
        "-m j prefers the oldest key, and the class cannot be constructed",
        "zeta",
    ),
    Exhibit(
        "rewarded future",
        "jaketae/alibi, December 2021",
        f"{_GITHUB}/jaketae/alibi/blob/021acae/alibi/attention.py",
        "as an encoder it prefers the keys furthest ahead",
        "jaketae_encoder",
    ),
    Exhibit(
        "content too weak",
        "jaketae/alibi, December 2021",
        f"{_GITHUB}/jaketae/alibi/blob/021acae/alibi/attention.py",
        "q . k is divided by sqrt(d_model), so with 8 heads content counts 2.8 times too little against the bias",
        "jaketae_content",
    ),
    Exhibit(
        "rewarded distance",
        "attention-gym until 2 December 2024",
        f"{_GITHUB}/meta-pytorch/attention-gym/pull/86",
        "the sign is the wrong way round",
        "attention_gym_2024",
    ),
    Exhibit(
        "a mask that does not fit",
        "the authors' fairseq, October 2023",
        f"{_GITHUB}/ofirpress/attention_with_linear_biases/blob/4b92f28/fairseq/models/transformer.py",
        "slices beyond the built size are silently shorter; right for the fixed sizes that the paper trained with",
        "fairseq_mask",
    ),
    Exhibit(
        "colliding positions",
        "BLOOM and Falcon, transformers 5.23.0",
        f"{_GITHUB}/huggingface/transformers/blob/v5.23.0/src/transformers/models/bloom/modeling_bloom.py",
        "m j in bfloat16: at 2048 tokens, the 64 nearest keys have 9 different biases instead of 64",
        "bloom_in_bfloat16",
    ),
    Exhibit(
        "the wrong corner of the cache",
        "x-transformers, June 2023",
        f"{_GITHUB}/lucidrains/x-transformers/blob/f71f3279de539ddb0f58bd50f22b84b6920e0ef6/x_transformers/x_transformers.py",
        "a cached bias sliced [:i, :j] gives a decoded token the row of the first query",
        "cache_from_the_wrong_corner",
    ),
    Exhibit(
        "no bias while decoding",
        "keras-hub's Falcon until August 2026",
        f"{_GITHUB}/keras-team/keras-hub/pull/2977",
        "a bias as long as the query broadcasts over the cache: slope * 0 for every key",
        "decoding_by_query_length",
    ),
    Exhibit(
        "added twice",
        "Falcon with eager attention, transformers 5.23.0",
        f"{_GITHUB}/huggingface/transformers/issues/29946",
        "the mask already holds the bias, so eager attention adds it a second time",
        "falcon_eager",
    ),
    Exhibit(
        "the first head gets slope 1",
        "seen in the wild",
        "heads counted from 0 in 2^(-8h/H)",
        "every slope is steeper by 2^(8/H), and the far-sighted head is missing",
        "off_by_one",
    ),
)
