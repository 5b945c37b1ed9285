"""Results and trained models that ship with the package, and their readers."""
