"""A repair of every bug, as a reader would write it: the faulty code with few changes."""

REPAIRS: dict[str, str] = {
    "sign reversed": """
def bias(num_heads, query_length, key_length):
    slopes = av.alibi_slopes(num_heads)[:, None, None]
    query = torch.arange(key_length - query_length, key_length)[:, None]
    key = torch.arange(key_length)
    return -slopes * (query - key)
""",
    "no bias": """
def bias(num_heads, query_length, key_length):
    slopes = av.alibi_slopes(num_heads)[:, None, None]
    position = torch.arange(key_length)
    return slopes * position
""",
    "first slope is 1": """
def slopes(num_heads):
    power = 2 ** int(math.log2(num_heads))
    first = [2 ** (-8 * (head + 1) / power) for head in range(power)]
    more = [2 ** (-4 * head / power) for head in range(1, 2 * (num_heads - power), 2)]
    return first + more
""",
    "heads without a bias": """
def slopes(num_heads):
    power = 2 ** int(math.log2(num_heads))
    slopes = [0.0] * num_heads
    for head in range(power):
        slopes[head] = 2 ** (-8 * (head + 1) / power)
    for head in range(power, num_heads):
        slopes[head] = 2 ** (-4 * (2 * (head - power) + 1) / power)
    return slopes
""",
    "bias before scaling": """
def attention(query, key, value):
    query_length, key_length = query.shape[2], key.shape[2]
    bias = av.alibi_bias(av.alibi_slopes(query.shape[1]), query_length, key_length)
    visible = av.causal_mask(query_length, key_length)
    logits = query @ key.mT / math.sqrt(query.shape[-1]) + bias
    return logits.masked_fill(~visible, -math.inf).softmax(-1) @ value
""",
    "added twice": """
def attention(query, key, value):
    query_length, key_length = query.shape[2], key.shape[2]
    bias = av.alibi_bias(av.alibi_slopes(query.shape[1]), query_length, key_length)
    mask = bias.masked_fill(~av.causal_mask(query_length, key_length), -math.inf)
    logits = query @ key.mT / math.sqrt(query.shape[-1])
    return (logits + mask).softmax(-1) @ value
""",
    "rewarded future": """
def attention(query, key, value):
    key_position = torch.arange(key.shape[2])
    query_position = key_position[-query.shape[2] :, None]
    bias = -av.alibi_slopes(query.shape[1])[:, None, None] * (query_position - key_position).abs()
    logits = query @ key.mT / math.sqrt(query.shape[-1]) + bias
    return logits.softmax(-1) @ value
""",
    "geometric slopes": """
def slopes(num_heads):
    power = 2 ** int(math.log2(num_heads))
    finer = [2 ** (-4 * head / power) for head in range(1, 2 * power + 1)]
    return finer[1::2] + finer[0::2][: num_heads - power]
""",
    "no bias while decoding": """
def bias(num_heads, query_length, key_length):
    slopes = av.alibi_slopes(num_heads)[:, None, None]
    position = torch.arange(key_length)
    return slopes * position
""",
    "wrong corner of the cache": """
def bias(num_heads, query_length, key_length):
    position = torch.arange(key_length)
    distance = (position[:, None] - position).abs()
    cached = -av.alibi_slopes(num_heads)[:, None, None] * distance
    return cached[:, -query_length:, :key_length]
""",
    "slopes of a head slice": """
def slopes(num_heads, devices=2):
    local_heads = num_heads // devices
    every = av.alibi_slopes(num_heads)
    parts = [every[device * local_heads : (device + 1) * local_heads] for device in range(devices)]
    return torch.cat(parts)
""",
    "square root of the distance": """
def bias(num_heads, query_length, key_length):
    slopes = av.alibi_slopes(num_heads)[:, None, None]
    query = torch.arange(key_length - query_length, key_length)[:, None]
    distance = (query - torch.arange(key_length)).clamp(min=0)
    return -slopes * distance
""",
    "content too weak": """
def attention(query, key, value):
    heads, query_length, head_dim = query.shape[1:]
    logits = query @ key.mT / math.sqrt(head_dim)
    logits = logits + av.alibi_bias(av.alibi_slopes(heads), query_length, key.shape[2])
    visible = av.causal_mask(query_length, key.shape[2])
    return logits.masked_fill(~visible, -math.inf).softmax(-1) @ value
""",
    "colliding positions": """
def bias(num_heads, query_length, key_length):
    slopes = av.alibi_slopes(num_heads)[:, None, None]
    position = torch.arange(key_length)
    return slopes * (position - position[-query_length:, None])
""",
}
