"""The larger commands of `python -m headviz`, one module each, and what they share."""
