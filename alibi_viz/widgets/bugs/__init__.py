"""SpotTheBug: name the fault of a wrong heatmap, then repair the code."""
