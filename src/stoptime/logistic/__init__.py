"""Cross-entropy by gradient methods, stopped early where folds in lockstep say."""
