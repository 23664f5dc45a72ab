"""The compare page: which models, what became of the scores, and how stable a score is between texts."""
