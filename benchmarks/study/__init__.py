"""The study of prediction errors: the data, the models, nested cross-validation and the page."""
