"""Rules that choose the stop. Import a name from the module that defines it."""

from stoptime.stopping.registry import RULES as RULES
from stoptime.stopping.rule import CurveRule as CurveRule
from stoptime.stopping.rule import StopWarning as StopWarning
from stoptime.theory.oracle import Oracle as Oracle
from stoptime.theory.oracle import estimate_oracle as estimate_oracle
