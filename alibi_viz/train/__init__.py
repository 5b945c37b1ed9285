"""Train models, race them, run sweeps of training, and save models."""
