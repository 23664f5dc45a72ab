"""Other models in the scatter: pinned, measured on the same text, read at the same thresholds."""

from __future__ import annotations

import dataclasses

import streamlit as st

from headviz import ui
from headviz.data import corpora
from headviz.errors import HeadvizError
from headviz.jobs.kinds import job_digest
from headviz.models import catalog
from headviz.settings import settings
from headviz.types import BandsRequest, ModelRef
from headviz.ui.bands.work import Work, name_of


@st.cache_resource(ttl=600, max_entries=64, show_spinner="Looking up the model …")
def _found(name: str, dtype: str) -> ModelRef:
    return catalog.resolve(name, dtype=dtype, settings=settings())


def pinned(work: Work, said=lambda sentence: None) -> dict[str, BandsRequest]:
    """Name → request of each other model that can be had; tells `said` why another cannot."""
    there: dict[str, BandsRequest] = {}
    for name in [one for one in ui.value("overlaid").split(",") if one]:
        try:
            request = BandsRequest(model=_found(name, work.request.model.dtype), data=work.request.data)
            corpora.check_length(request.data, catalog.context_length(request.model, settings()))
        except HeadvizError as error:
            said(f"{name} is left out: {error}")
            continue
        if job_digest(request) != job_digest(work.request):
            label = name_of(request)
            there[label if label not in there else name] = request
    return there


def gathered(work: Work) -> dict[str, Work]:
    """What is measured of the others. The rest is begun where that is cheap, or offered; shows how far it is."""
    asked = pinned(work, st.warning)
    if not asked:
        return {}
    digests = {name: job_digest(request) for name, request in asked.items()}
    key = tuple(digests.values())
    started = st.session_state.get("headviz_overlaid") == key
    started = started or all(ui.starts_by_itself(request) for request in asked.values())
    there = ui.gather(tuple(asked.values()), start=started, group="overlaid")
    missing = tuple(dict.fromkeys(digest for digest in key if digest not in there))
    if missing and started:
        ui.working_on(missing, "overlaid")
    elif missing:
        names = ", ".join(name for name, digest in digests.items() if digest in missing)
        st.button(
            f"Measure {names}",
            on_click=lambda: st.session_state.update(headviz_overlaid=key),
            help="Loads each in the background, downloads it if it is not on this machine, and runs it over the text. Results are kept.",
        )
    return {
        name: dataclasses.replace(work, request=asked[name], bands=there[digest])
        for name, digest in digests.items()
        if digest in there
    }
