"""`runward serve`: set up everything for a first run, starting from an empty folder."""
