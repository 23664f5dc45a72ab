"""Pages run in AppTest, alone and through app.py, over a store that already holds the answer: no worker, no model."""

import json
import shutil
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from headviz.data import corpora
from headviz.jobs import local
from headviz.jobs.kinds import job_digest
from headviz.models import catalog
from headviz.settings import Settings, settings
from headviz.types import ScoreRequest
from tests.fakes import fake_table

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

    def open_page(**parameters) -> AppTest:
        if request.param == "alone":
            app = AppTest.from_file(str(ROOT / "pages/heads.py"), default_timeout=60)
            for name, value in parameters.items():
                app.session_state[name] = value
        else:
            app = open_app(**parameters)
            app.switch_page("pages/heads.py")
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
