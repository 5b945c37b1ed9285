"""ComparisonExplorer and its caption."""
