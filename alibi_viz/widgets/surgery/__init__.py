"""SlopeSurgery: change a trained model and evaluate it again."""
