"""The parts of the bands page."""
