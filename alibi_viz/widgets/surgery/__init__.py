"""SlopeSurgery: change a trained model and test it again."""
