"""The commands of whoever runs Runward: they read the settings and touch the database."""
