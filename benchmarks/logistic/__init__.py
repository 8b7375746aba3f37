"""Cross-entropy: stopped logistic regression against scikit-learn's penalties."""
