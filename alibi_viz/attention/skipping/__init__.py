"""Attention that leaves out the keys whose weight is negligible, exact to rounding.

ALiBi lowers the logit of a key by m for each step back, while content can raise it only by a
limited amount. So in a head with a steep slope, all keys beyond some distance together have less
weight than the rounding of the output, and skipping them changes nothing that the dtype can show.
With equal content, eight heads and 4096 tokens, this leaves out 65% of the pairs of query and key.

How exact: the keys beyond the spans change an output by at most 2^-23 of the largest value in
float32 (see `tolerance` of `alibi_attention`); the rest is rounding. For gradients no bound is
proved. Measured against float64, with 600 and 2304 tokens, output and gradients of query, key and
value are within 5e-6 of the largest element of each in float32, for logits with a standard
deviation of up to 1 around a common value of up to 16,384. Logits that differ more have larger
errors, as they have with a mask.

Three steps, one file each:

1. `spans`: how far each head has to look. A bound on the content of any key (Cauchy-Schwarz, from a
   ball around the keys), a geometric series over all keys beyond the span, and a lower bound on the
   weight of the near keys (Jensen's inequality) give the *attention span* of the head, for the
   call's own queries and keys.
2. `tiles`: the part of the attention matrix within the span, cut into rectangles that a kernel
   computes in batches.
3. `windowed`: torch's fused kernel for each tile, the merging of the tiles by their log sums, and
   the gradients, those of the slopes included. This is the backend "windowed".

Precedents: attention in blocks that are merged by their log sums is that of FlashAttention (Dao et
al. 2022, arXiv 2205.14135). Adaptive computation pruning (Lin et al. 2025, arXiv 2504.06949, COLM
2025) skips keys by a bound on the content, for learned decays; `spans` says what differs here.
"""
