"""AttentionExplorer, WindowExplorer, and what they share."""
