"""LengthLab, the live training app."""
