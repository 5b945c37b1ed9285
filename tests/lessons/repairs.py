"""A repair of every bug, as a reader would write it: the faulty code with one change."""

from alibi_viz.lessons import BUGS

_CHANGES = {
    "sign reversed": ("return slopes", "return -slopes"),
    "no bias": ("torch.arange(1, query_length + 1)[:, None]", "torch.arange(key_length)"),
    "first slope is 1": ("(-8 * head / closest)", "(-8 * (head + 1) / closest)"),
    "heads without a bias": ("    return slopes", "    return av.alibi_slopes(num_heads)"),
    "bias before scaling": (
        "(query @ key.mT + bias) / math.sqrt(query.shape[-1])",
        "query @ key.mT / math.sqrt(query.shape[-1]) + bias",
    ),
    "added twice": (" + bias\n", "\n"),
    "rewarded future": ("(query_position - key_position)", "(query_position - key_position).abs()"),
    "geometric slopes": (
        "return [256 ** (-head / num_heads) for head in range(1, num_heads + 1)]",
        "return av.alibi_slopes(num_heads)",
    ),
    "no bias while decoding": ("key_length if query_length > 1 else query_length", "key_length"),
    "wrong corner of the cache": (":query_length", "-query_length:"),
    "slopes of a head slice": (
        "av.alibi_slopes(local_heads).tolist() * devices",
        "av.alibi_slopes(num_heads)",
    ),
    "square root of the distance": (".sqrt()", ""),
    "content too weak": ("heads * head_dim", "head_dim"),
    "colliding positions": ("(slopes * position).bfloat16()", "slopes * position"),
}
REPAIRS = {bug.fault: bug.code.replace(*_CHANGES[bug.fault]) for bug in BUGS.values()}
