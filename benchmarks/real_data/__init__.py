"""The default fit against RidgeCV on real and on ill-conditioned data."""
