"""The model store: what is needed, where it comes from, and whether it is what it should be."""
