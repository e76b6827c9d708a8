"""The operator's commands. They read the environment variables and use the database directly."""
