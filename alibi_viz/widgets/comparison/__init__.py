"""ComparisonExplorer: look at a table of results, question by question."""
