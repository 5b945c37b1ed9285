"""Hints for mistakes in the exercises: each points to the place of the mistake without giving the solution."""

import math
from collections.abc import Callable

__all__ = ["HINTS", "WINDOW_MISTAKES"]

_SIGN = "Which key should get the largest bias, the nearest or the furthest? Look at the sign."

# {exercise: {name of a fault in `check.FAULTS`: hint}}; "any" holds hints for all exercises
HINTS: dict[str, dict[str, str]] = {
    "slopes": {
        "first slope is 1": "With which number do you start to count the heads?",
        "geometric slopes": (
            "Powers of two are right. For other head counts the authors' code does something else: "
            "lesson 1, under “When the number of heads is not a power of two”."
        ),
        "halving slopes": "This is right for 8 heads only. How should the exponent depend on the number of heads?",
        "sign reversed": "A slope is a positive number. The bias gets the minus sign, not the slope.",
        "bias multiplied": "All slopes are off by the same factor. What is the slope of a single head?",
        "heads in another order": "The numbers are right, but they belong to other heads. Don't sort them.",
        "heads without a bias": "Some slopes are 0. What happens with the heads beyond the largest power of two?",
        "other slopes": "Write down the slopes for 8 heads by hand, and compare them with what you return.",
        "imprecise slopes": "Compute in float32, and round at the end if you need half precision.",
    },
    "bias": {
        "sign reversed": _SIGN,
        "wrong corner of the cache": "With fewer queries than keys, at which position is the first query?",
        "no bias while decoding": "With one query and many keys, how many different distances are there?",
        "colliding positions": "Multiply in float32, and start from integers.",
    },
    "attention": {
        "sign reversed": _SIGN,
        "no bias": "The output is that of attention without a bias. Does the bias vary along the keys?",
        "bias before scaling": "What exactly is divided by sqrt(head_dim)? Look at the formula at the top of lesson 1.",
        "content not scaled": "One factor is missing from q . k.",
        "content too weak": "The scale of q . k depends on the size of one head, not on that of the whole model.",
        "content multiplied": "The factor of q . k isn't the right one. Which size does it depend on?",
        "future not masked": "Which keys may a query not see?",
        "rewarded future": "Which keys may a query not see? And what is the sign of your bias there?",
        "causal mask in the wrong corner": "With fewer queries than keys, the queries are the last positions.",
        "query can't see itself": "Which is the last key that a query may see?",
        "one key ahead": "Which is the last key that a query may see?",
        "wrong corner of the cache": "With fewer queries than keys, at which position is the first query?",
        "not a weighted average": "Do the weights of each query sum to 1? Check the axis of the softmax.",
        "geometric slopes": "Powers of two are right. Use the slopes of the first exercise for the others.",
    },
    "decoding row": {
        "sign reversed": _SIGN,
        "no bias": "Does the result depend on the position of the key?",
    },
    "fold": {
        "no bias": "The extra coordinates cancel out. Does their product vary along the keys?",
        "sign reversed": "Is the logit of a later key larger or smaller than that of an earlier one?",
        "content not scaled": "The dot products are not scaled for you. Where can the factor 1 / sqrt(head_dim) go?",
        "bias before scaling": "The scale is applied to the extra coordinates too, and it shouldn't be.",
        "content multiplied": "The factor of q . k isn't the right one. Which size does it depend on?",
        "bias multiplied": "The product of the extra coordinates should change by one slope from key to key.",
    },
    "window": {
        "raises an error": "The function gets two numbers, a slope and a share, and returns an integer.",
        "unknown fault": (
            "At equal content, the weights are a geometric series. Which share of its sum is beyond w steps?"
        ),
    },
    "any": {
        "wrong shape": "Print the shape of what you return, and compare it with the one asked for.",
        "wrong type": "Return a tensor, or what can be made into one.",
        "raises an error": "Call the function yourself with these sizes, and read the error.",
        "does not finish": "Is there a loop that never ends?",
        "returns NaN": "Is there a row in which every key is masked?",
        "not deterministic": "Two equal calls give different results. Is there something random?",
        "unknown fault": "None of the known mistakes explains this. Look at the pictures: where do they differ?",
    },
}


def _steps(logarithm: float, slope: float) -> int:
    """The smallest window w >= 0 with slope * (w + 1) >= logarithm."""
    return max(0, math.ceil(logarithm / slope) - 1)


# (hint, the rule (slope, share) -> window that has this mistake)
WINDOW_MISTAKES: tuple[tuple[str, Callable[[float, float], int]], ...] = (
    (
        "Nearly. A window of w steps contains w + 1 keys, because the query's own key is 0 steps back.",
        lambda slope, share: _steps(-math.log(share), slope) + 1,
    ),
    (
        "It is too small by one. Did you round down?",
        lambda slope, share: _steps(-math.log(share), slope) - 1,
    ),
    ("The weight is e to the power of -slope * distance. Which logarithm?", lambda m, s: _steps(-math.log2(s), m)),
    ("The weight is e to the power of -slope * distance. Which logarithm?", lambda m, s: _steps(-math.log10(s), m)),
    ("Half the slope, twice the window: how does yours depend on the slope?", lambda m, s: _steps(-math.log(s), 1.0)),
    ("Half the slope, twice the window: how does yours depend on the slope?", lambda m, s: _steps(-math.log(s), 1 / m)),
    (
        "This looks at a single key. All keys beyond the window count together.",
        lambda slope, share: _steps(math.log(-math.expm1(-slope) / share), slope),
    ),
    (
        "This compares a key with the nearest one. Compare all keys beyond the window with the sum of all.",
        lambda slope, share: math.ceil(math.log(1 / share / -math.expm1(-slope)) / slope) - 1,
    ),
)
