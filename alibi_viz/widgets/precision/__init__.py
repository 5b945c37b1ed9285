"""PrecisionMicroscope: what rounding does to the bias and to the attention weights."""
