"""Leave out the keys whose weight is negligible."""
