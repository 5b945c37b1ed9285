"""ALiBi attention: several exact implementations behind one function."""

from alibi_viz.attention.attention import BACKENDS, AttentionTrace, alibi_attention, attention_trace, choose_backend

__all__ = ["BACKENDS", "AttentionTrace", "alibi_attention", "attention_trace", "choose_backend"]
