"""Few examples by default; CARE_EXAMPLES=500 draws as many as that for each property."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "care",
    deadline=None,
    max_examples=int(os.environ.get("CARE_EXAMPLES", "15")),
    derandomize="CARE_EXAMPLES" not in os.environ,  # a suite that fails today failed yesterday
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("care")
