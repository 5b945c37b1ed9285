"""The page that trains and writes in a browser, without a kernel."""
