"""Exact leave-one-out: the residual of every row from the path fitted without it."""
