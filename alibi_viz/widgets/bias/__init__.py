"""BiasExplorer and its caption."""
