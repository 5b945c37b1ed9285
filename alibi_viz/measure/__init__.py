"""Measure trained models: losses, questions, attention statistics, and the table of results."""
