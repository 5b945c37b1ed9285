"""AttentionExplorer and its caption."""
