"""Change a trained model: its slopes, its windows, its rotary rules."""
