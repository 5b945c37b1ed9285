"""The faults that the checker can name: what each is, and what to change."""

from dataclasses import dataclass

__all__ = ["FAULTS", "Fault"]


@dataclass(frozen=True)
class Fault:
    """A way in which implementations of ALiBi go wrong: a name, what is computed, and what to change."""

    name: str
    problem: str
    fix: str


_FAULTS = [
    # the slopes
    Fault(
        "first slope is 1",
        "the slopes are 2^(-8h/H) for h = 0, 1, ..., so each is 2^(8/H) times too steep and 1/256 is missing",
        "count the heads from 1",
    ),
    Fault(
        "geometric slopes",
        "the slopes are one geometric sequence where the authors' code interleaves two, which changes every head count "
        "that is not a power of two",
        "use `alibi_slopes(num_heads)`, or pass `slopes='geometric'` to the checker if the model was trained this way",
    ),
    Fault(
        "halving slopes", "the slopes are 1/2, 1/4, 1/8, ..., correct for 8 heads only", "use `alibi_slopes(num_heads)`"
    ),
    Fault(
        "slopes of a head slice",
        "the slopes are those of a smaller model, repeated: each device computed slopes for its own heads",
        "compute the slopes for all heads, then take the slice of this device",
    ),
    Fault(
        "imprecise slopes",
        "the slopes are the correct ones rounded to half precision",
        "compute the slopes in float64 or float32 and round once, at the end",
    ),
    Fault(
        "heads in another order",
        "the slopes are the correct ones, but belong to other heads",
        "reorder the slopes; if the order is intended, pass the checker `slopes=` with your own function",
    ),
    Fault("heads without a bias", "some heads have slope 0", "check the slopes beyond the largest power of two"),
    Fault("other slopes", "the slopes follow none of the known schemes", "use `alibi_slopes(num_heads)`"),
    # a factor of the bias
    Fault(
        "sign reversed",
        "the bias rewards distance: distant keys get the largest weights",
        "use -slope * (query position - key position)",
    ),
    Fault(
        "sign reversed in one branch",
        "the bias rewards distance for some sizes and penalizes it for others",
        "find the branch for these sizes, such as the one for decoding, and use the same sign there",
    ),
    Fault(
        "no bias",
        "the attention is that without ALiBi: the bias is missing, zero, or constant along the keys",
        "check that the bias reaches the softmax and that it varies along the key axis",
    ),
    Fault(
        "no bias while decoding",
        "queries with a cache get no bias",
        "build the bias from the number of keys, including cached ones, not from the number of queries",
    ),
    Fault("added twice", "the bias has twice its size, as if it were added twice", "add it once: the mask may hold it"),
    Fault(
        "bias before scaling",
        "the bias is added before the division by sqrt(head_dim), so the slopes are too flat by that factor",
        "scale q . k first, then add the bias",
    ),
    Fault("bias multiplied", "the bias is multiplied by a constant", "add the bias without a factor"),
    Fault(
        "logits multiplied",
        "q . k and the bias are multiplied by the same constant, as by a softmax temperature",
        "remove the factor, or multiply only q . k by it",
    ),
    # the dependence on positions
    Fault(
        "wrong corner of the cache",
        "a cached bias is cut from the start, so a decoded token gets the row of an early query",
        "slice the last rows, [..., -query_length:, :key_length]",
    ),
    Fault(
        "causal mask in the wrong corner",
        "with fewer queries than keys, the causal mask is aligned with the first keys, so queries miss the latest ones",
        "align the queries with the last keys: query i sees keys up to i + key_length - query_length; if there is no "
        "cache, pass `decoding=False`",
    ),
    Fault(
        "colliding positions",
        "positions or their products with slopes are rounded to half precision, so neighboring keys get the same bias",
        "compute -slope * (query - key) from integers in float32 and round last",
    ),
    Fault(
        "square root of the distance",
        "the bias is -slope * sqrt(distance), which is another method",
        "multiply the slope by the distance itself",
    ),
    Fault(
        "logarithm of the distance",
        "the bias is -slope * log(1 + distance), which is another method (KERPLE without learned parameters)",
        "multiply the slope by the distance itself",
    ),
    Fault(
        "rounded to half precision",
        "the weights are right within half precision only, although the function takes and returns float32",
        "if this is intended, pass the checker `dtype=torch.bfloat16`; otherwise compute the softmax in float32",
    ),
    Fault(
        "length cap",
        "the bias is right up to a certain distance or length only",
        "compute the bias for the current length, or let the table grow",
    ),
    # the other direction
    Fault(
        "rewarded future",
        "keys after the query get a positive bias, m (j - i), and no mask hides them",
        "for an encoder use -m |i - j|; for a decoder add the causal mask",
    ),
    Fault("future not masked", "keys after the query have weight although `causal=True`", "add the causal mask"),
    Fault("query can't see itself", "the causal mask hides the query's own position", "let query i see keys up to i"),
    Fault("one key ahead", "the causal mask shows one key after the query", "let query i see keys up to i"),
    Fault("window", "keys beyond a certain distance are masked", "remove the window, which is not a part of ALiBi"),
    Fault("only earlier keys", "keys after the query are masked although `causal=False`", "remove the causal mask"),
    # content, batches and padding
    Fault(
        "content too weak",
        "q . k is divided by sqrt(d_model) instead of sqrt(head_dim), so content is too weak by sqrt(heads)",
        "divide by the square root of the size of one head",
    ),
    Fault("content not scaled", "q . k is not divided by sqrt(head_dim)", "divide q . k by sqrt(head_dim)"),
    Fault("content multiplied", "q . k is multiplied by the wrong factor", "divide q . k by sqrt(head_dim)"),
    Fault(
        "content depends on position",
        "the same query and key score differently at other positions, as with rotary embeddings",
        "use ALiBi alone, or check the bias by itself with `check.bias`",
    ),
    Fault(
        "content depends on the head",
        "q . k is multiplied by a factor that differs between heads",
        "apply slopes to distances only, and the same scale to all heads",
    ),
    Fault(
        "batch rows mixed", "sequences of a batch get different biases", "repeat the bias per sequence: row b * H + h"
    ),
    Fault("padding not masked", "padding has attention weight", "mask the padding"),
    Fault(
        "padding changes the bias",
        "with padding in front, the weights of the real tokens differ from those without padding",
        "count queries and keys from the same token; only the difference of their positions matters",
    ),
    # the call itself
    Fault(
        "raises an error",
        "the call raises",
        "correct the error; if only some sizes fail, handle them, or pass `decoding=False` if there is no cache",
    ),
    Fault("does not finish", "the call takes too long", "check for a loop; pass a larger `seconds` if it is only slow"),
    Fault("returns NaN", "the result contains NaN", "check rows that are fully masked"),
    Fault("wrong type", "the result is not an array of numbers", "return the output only, as an array"),
    Fault("wrong shape", "the result has the wrong shape", "compare the shape with `layout`"),
    Fault(
        "wrong layout",
        "the axes are in another order than `layout` says",
        "pass the layout with which no fault is found",
    ),
    Fault("missing case", "the file lacks a case", "keep all cases of a list, with their inputs"),
    Fault(
        "not deterministic", "two equal calls give different results", "switch off dropout, for example with `eval()`"
    ),
    Fault(
        "not a weighted average",
        "the output is not a weighted average of the values",
        "check attention by itself, without an output projection, and normalize the weights",
    ),
    Fault("unknown fault", "the result is wrong, but by none of the known faults", "look at the weights that differ"),
]
FAULTS = {fault.name: fault for fault in _FAULTS}
