"""Budgets of a run: how often the service does each expensive thing, counted without a clock.

`python -m tests.budgets` prints the table. `python -m tests.budgets --write` stores it as the new
budgets and in docs/explanation/performance.md.
"""
