"""Explore every state of small runs: the loop and the domain on a twin of the store."""
