"""How many generated problems a test tries: a few by default, and many with ``make soak``."""

import os

import pytest
from hypothesis import HealthCheck, settings

WHOLE = 20_000  # what ``make soak`` sets STOPTIME_SOAK to
ASKED = int(os.environ.get("STOPTIME_SOAK", "0"))
SOAK = ASKED > 0

long = pytest.mark.skipif(not SOAK, reason="a campaign of minutes: make soak")


def problems(usual: int, whole: int) -> int:
    """Return the usual number of problems, or the share of a whole campaign that is asked for."""
    return max(usual, whole * ASKED // WHOLE)


def examples(usual: int, whole: int) -> settings:
    """Return settings of Hypothesis; with ``make soak`` it draws other problems every time."""
    profile = settings.get_profile("soak" if SOAK else "repeatable")
    count = problems(usual, whole)
    return settings(profile, max_examples=count, suppress_health_check=list(HealthCheck))
