"""Hypothesis for the unit tests: what a test may take is what pytest's timeout says, since a
machine that does other work too makes any single example slow."""

from hypothesis import HealthCheck, settings

settings.register_profile("unit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unit")
