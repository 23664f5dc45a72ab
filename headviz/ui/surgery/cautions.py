"""What must be known of a model before anything of it is read, also while no repair is open."""

from __future__ import annotations

from headviz import ui
from headviz.errors import HeadvizError
from headviz.ui.surgery.case import Case


def at_the_left() -> None:
    """Of the chosen model. One that is not there says so where something is asked of it: lists of repairs need none."""
    try:
        model = ui.model_ref()
    except HeadvizError:
        return
    ui.caution(model)


def of_cases(*cases: Case | None) -> None:
    """Of the models of some repairs, each once; of the chosen model where no repair is chosen."""
    models = dict.fromkeys(case.request.model for case in cases if case is not None)
    for model in models:
        ui.caution(model)
    if not models:
        at_the_left()
