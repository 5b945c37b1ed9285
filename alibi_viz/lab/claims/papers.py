"""The papers that claims come from, or that contradict them."""

from dataclasses import dataclass

__all__ = ["PAPERS", "Paper", "cite"]


@dataclass(frozen=True)
class Paper:
    """A paper, by its first authors, year, title and arXiv number."""

    authors: str
    year: int
    title: str
    arxiv: str

    def __str__(self) -> str:
        end = "" if self.title.endswith("?") else "."
        return f"{self.authors} ({self.year}). {self.title}{end} arXiv {self.arxiv}."


PAPERS = {
    "alibi": Paper(
        "Press, Smith, Lewis",
        2021,
        "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation",
        "2108.12409",
    ),
    "alibi interpolation": Paper(
        "Al-Khateeb, Dey, Soboleva, Hestness", 2023, "Position Interpolation Improves ALiBi Extrapolation", "2310.13017"
    ),
    "bam": Paper(
        "Bianchessi and others",
        2025,
        "Bayesian Attention Mechanism: A Probabilistic Framework for Positional Encoding and Context Length "
        "Extrapolation",
        "2505.22842",
    ),
    "btlm": Paper("Dey and others", 2023, "BTLM-3B-8K: 7B Parameter Performance in a 3B Parameter Model", "2309.11568"),
    "cope": Paper(
        "Golovneva and others",
        2024,
        "Contextual Position Encoding: Learning to Count What's Important",
        "2405.18719",
    ),
    "drope": Paper(
        "Gelberg and others",
        2025,
        "Extending the Context of Pretrained LLMs by Dropping Their Positional Embeddings",
        "2512.12167",
    ),
    "fire": Paper(
        "Li and others",
        2024,
        "Functional Interpolation for Relative Positions Improves Long Context Transformers",
        "2310.04418",
    ),
    "forget": Paper(
        "Lin and others", 2025, "Forgetting Transformer: Softmax Attention with a Forget Gate", "2503.02130"
    ),
    "kerple": Paper(
        "Chi, Fan, Ramadge, Rudnicky",
        2022,
        "KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation",
        "2205.09921",
    ),
    "lm-infinite": Paper(
        "Han and others",
        2023,
        "LM-Infinite: Zero-Shot Extreme Length Generalization for Large Language Models",
        "2308.16137",
    ),
    "nope": Paper(
        "Kazemnejad and others",
        2023,
        "The Impact of Positional Encoding on Length Generalization in Transformers",
        "2305.19466",
    ),
    "no positions": Paper(
        "Haviv, Ram, Press, Izsak, Levy",
        2022,
        "Transformer Language Models without Positional Encodings Still Learn Positional Information",
        "2203.16634",
    ),
    "pi": Paper(
        "Chen, Wong, Chen, Tian",
        2023,
        "Extending Context Window of Large Language Models via Positional Interpolation",
        "2306.15595",
    ),
    "randomized": Paper(
        "Ruoss and others",
        2023,
        "Randomized Positional Encodings Boost Length Generalization of Transformers",
        "2305.16843",
    ),
    "ruler": Paper(
        "Hsieh and others",
        2024,
        "RULER: What's the Real Context Size of Your Long-Context Language Models?",
        "2404.06654",
    ),
    "sandwich": Paper(
        "Chi, Fan, Rudnicky, Ramadge",
        2023,
        "Dissecting Transformer Length Extrapolation via the Lens of Receptive Field Analysis",
        "2212.10356",
    ),
    "stick-breaking": Paper("Tan and others", 2024, "Stick-breaking Attention", "2410.17980"),
    "streaming": Paper(
        "Xiao and others", 2023, "Efficient Streaming Language Models with Attention Sinks", "2309.17453"
    ),
    "xpos": Paper("Sun and others", 2022, "A Length-Extrapolatable Transformer", "2212.10554"),
    "yarn": Paper(
        "Peng, Quesnelle, Fan, Shippole",
        2023,
        "YaRN: Efficient Context Window Extension of Large Language Models",
        "2309.00071",
    ),
}


def cite(paper: str, where: str = "") -> str:
    """A short reference to one of `PAPERS`, with a table, figure or section.

    Raises KeyError for an unknown paper.

    >>> from alibi_viz.lab.claims import cite
    >>> cite("alibi", "table 2")
    'Press, Smith, Lewis 2021, arXiv 2108.12409, table 2'
    """
    known = PAPERS[paper]
    return ", ".join([f"{known.authors} {known.year}", f"arXiv {known.arxiv}", *([where] if where else [])])
