"""Methods that rows are left out of, for the tests of it."""

from stoptime import AcceleratedFlow, GradientFlow, HeavyBallFlow, Ridge

METHODS = [
    Ridge(),
    GradientFlow(),
    AcceleratedFlow(),
    AcceleratedFlow(friction=1.5),
    AcceleratedFlow(friction=6.0),
    HeavyBallFlow(damping=0.3),
    HeavyBallFlow(damping=1e-3),
]
