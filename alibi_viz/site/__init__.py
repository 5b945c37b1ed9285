"""A page that trains and writes without a kernel: one folder that opens from a file, without a
network."""
