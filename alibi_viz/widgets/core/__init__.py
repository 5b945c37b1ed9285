"""What every app is built from."""
