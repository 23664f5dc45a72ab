"""Pages run in AppTest, alone and through app.py, over a store that already holds the answer: no worker, no model."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from headviz.analysis import ablation
from headviz.analysis.ablation import Plan
from headviz.data import corpora, docstrings, reading
from headviz.jobs import local
from headviz.jobs.kinds import job_digest
from headviz.models import catalog
from headviz.settings import Settings, settings
from headviz.types import ScoreRequest, TextLosses, plain
from tests.fakes import fake_provenance, fake_table

ROOT = Path(__file__).parents[2]


def default_request() -> ScoreRequest:
    """What a first visit asks for."""
    model = catalog.resolve("smollm2", settings=settings())
    return ScoreRequest(model=model, data=corpora.resolve("docstrings", part="held-out", settings=settings()))


@pytest.fixture(scope="session")
def built_corpora(tmp_path_factory):
    """The docstrings corpus, built once: it takes a second or two."""
    folder = tmp_path_factory.mktemp("corpora")
    corpora.resolve("docstrings", part="held-out", settings=Settings(home=folder))
    return folder / "corpora"


@pytest.fixture(autouse=True)
def fresh(home, built_corpora):
    """What one test's pages kept in memory is not there for the next."""
    st.cache_resource.clear()
    shutil.copytree(built_corpora, home / "corpora")


@pytest.fixture
def no_worker(monkeypatch):
    """Jobs are queued and stay there: what a page shows while it waits, without a process."""
    monkeypatch.setattr("headviz.jobs.lane.Lane.start", lambda self: None)


@pytest.fixture
def table():
    return fake_table()


@pytest.fixture
def scored(home, table):
    """The answer of the first visit is in the store."""
    request = default_request()
    local.store().put(job_digest(request), table)
    return request


@pytest.fixture(params=["alone", "through app.py"])
def open_heads(request):
    """Opens the heads page with URL parameters: the page's file by itself, or the whole app."""
    return opener("pages/heads.py", alone=request.param == "alone")


def opener(page: str, alone: bool) -> Callable[..., AppTest]:
    """What opens a page with URL parameters: its file by itself, or in the whole app."""

    def open_page(**parameters) -> AppTest:
        if alone:
            app = AppTest.from_file(str(ROOT / page), default_timeout=60)
            for name, value in parameters.items():
                app.session_state[name] = value
        else:
            app = open_app(**parameters)
            app.switch_page(page)
        return app.run()

    return open_page


def open_app(**parameters) -> AppTest:
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    for name, value in parameters.items():
        app.query_params[name] = str(value)
    return app


def figure(app: AppTest, key: str) -> dict:
    """The plotly figure with this key, as JSON."""
    for chart in app.get("plotly_chart"):
        if chart.proto.id.endswith(f"-{key}"):
            return json.loads(chart.proto.spec)
    raise AssertionError(f"no chart {key!r} among {[chart.proto.id for chart in app.get('plotly_chart')]}")


def said(app: AppTest) -> str:
    """All text of the page."""
    return "\n".join(
        element.value for element in [*app.markdown, *app.caption, *app.info, *app.warning, *app.error]
    )


# ------------------------------------------------------------------------------------------ the ablation page


def losses(shift: float) -> TextLosses:
    rng = np.random.default_rng(0)
    predicted = np.full(24, 63, np.int32)
    return TextLosses(
        loss=predicted * (3.5 + rng.normal(0, 0.3, 24) + shift),
        predicted=predicted,
        by_position=np.full(63, 3.5),
        cluster=np.arange(24, dtype=np.int32),
        documents=tuple(f"d{i}" for i in range(24)),
        off_share=np.full(24, 0.2, np.float32),
        off_sets={},
        provenance=fake_provenance(),
    )


@pytest.fixture
def plan(home, table, built_train) -> Plan:
    """The default plan; its scores are in the store."""
    made = Plan(
        model=catalog.resolve("smollm2", settings=settings()),
        chosen_on=corpora.resolve("docstrings", part="train", settings=settings()),
        metric="ahon_ln",
        share=0.2,
        text=corpora.resolve("docstrings", part="held-out", settings=settings()),
        draws=3,
    )
    local.store().put(job_digest(ablation.scoring(made)), table)
    return made


@pytest.fixture
def built_train(home, monkeypatch):
    """Both parts of the docstrings are the held-out one: the training part takes ten seconds to build."""
    real = docstrings.load
    monkeypatch.setitem(reading.INSTALLED, "docstrings", lambda part, folder: real("held-out", folder))


def put(plan: Plan, off, shift: float) -> None:
    request = ablation.measuring(plan, off)
    found = losses(shift)  # the curve finds it by the request that it says it answers
    made = dataclasses.replace(found.provenance, request=plain(request))
    local.store().put(job_digest(request), dataclasses.replace(found, provenance=made))


def open_page(**parameters):
    app = open_app(**parameters)
    app.switch_page("pages/ablation.py")
    return app.run()
