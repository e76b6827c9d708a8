"""The commands that ask a running Runward, over its public API and nothing else."""
