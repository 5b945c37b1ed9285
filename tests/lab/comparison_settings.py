"""Settings of a comparison that takes a second."""

TINY = {"length": 16, "steps": 3, "longest": 2, "progress": False}
