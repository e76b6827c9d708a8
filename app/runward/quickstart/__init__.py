"""`python -m runward serve`: everything for a first run, from an empty folder."""
