"""What the pages share. The only package under headviz that imports streamlit.

state.py      the view in session and URL, and the model and data it names
parts.py      page head, the computed sentence, charts, provenance
answers.py    requests: nothing yet, working, failed, done
garbage.py    what need not be looked through for garbage after every run
once.py       what takes a while to make, made once for each key
threshold.py  which score and how strict: controls over a map, and the sentence they give
one_head.py   picking a head, its scores in depth, what it attends to
take_away.py  downloads and "show the code"
uploads.py    head sets that somebody uploads
"""

from headviz.describe import describe
from headviz.ui.answers import answer, cached, ended, forget, gather, jobs_indicator, working_on
from headviz.ui.garbage import spare_modules
from headviz.ui.once import once
from headviz.ui.parts import (
    caution,
    chart,
    look_at,
    measured_text,
    page_head,
    provenance,
    provenance_text,
    say,
    sentences,
    token_strip,
)
from headviz.ui.state import (
    data_ref,
    holder,
    keyed,
    model_ref,
    pick_head,
    put,
    score_request,
    show,
    start,
    starts_by_itself,
    sync_url,
    theme,
    value,
)
from headviz.ui.take_away import camera, take_away

__all__ = [
    "answer",
    "cached",
    "camera",
    "caution",
    "chart",
    "data_ref",
    "describe",
    "ended",
    "forget",
    "gather",
    "holder",
    "jobs_indicator",
    "keyed",
    "look_at",
    "measured_text",
    "model_ref",
    "once",
    "page_head",
    "pick_head",
    "provenance",
    "provenance_text",
    "put",
    "say",
    "score_request",
    "sentences",
    "show",
    "spare_modules",
    "start",
    "starts_by_itself",
    "sync_url",
    "take_away",
    "theme",
    "token_strip",
    "value",
    "working_on",
]
