"""AttentionExplorer, and its parts."""
