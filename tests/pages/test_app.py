"""The whole app: pages, sidebar, URL."""

import sys

from streamlit.runtime.pages_manager import PagesManager

from headviz.jobs import local
from headviz.models import catalog
from headviz.reopen import of_request
from headviz.settings import settings
from headviz.types import PatternRequest
from headviz.ui import garbage, parts, state
from headviz.ui.sidebar import offered
from headviz.view import VIEW
from tests.checkpoints import save
from tests.pages.conftest import ROOT, default_request, open_app, said


def test_every_page_opens(scored, built_train):
    app = open_app().run()
    assert not app.exception
    for page in sorted((ROOT / "pages").glob("*.py")):
        app.switch_page(f"pages/{page.name}").run()
        assert not app.exception, page.name


def test_what_was_imported_is_not_looked_through_after_every_run(scored, monkeypatch):
    frozen = []
    monkeypatch.setattr(garbage, "_modules", 0)
    monkeypatch.setattr(garbage.gc, "freeze", lambda: frozen.append(len(sys.modules)))
    app = open_app()
    app.switch_page("pages/heads.py").run()
    assert len(frozen) == 1
    monkeypatch.setattr(garbage, "_modules", 10**6)  # nothing is imported from now on
    app.run()
    assert len(frozen) == 1


def test_every_control_has_a_help_text(scored):
    app = open_app()
    app.switch_page("pages/heads.py").run()
    controls = [*app.selectbox, *app.slider, *app.number_input, *app.text_input, *app.toggle, *app.text_area]
    assert len(controls) > 10
    assert [control.label for control in controls if not control.help] == []


def test_a_bad_url_is_answered_aloud_and_never_breaks(scored):
    app = open_app(metric="ahno_ln", inputs="many", wrong="1")
    app.switch_page("pages/heads.py").run()
    assert not app.exception
    text = said(app)
    assert "Did you mean 'ahon_ln'" in text
    assert "`inputs=many` was ignored" in text
    assert "`wrong` is no parameter" in text


def test_the_url_is_the_view(scored):
    app = open_app(metric="awft", share="35.0", head="L03.H07", seed="0")
    app.switch_page("pages/heads.py").run()
    assert not app.exception
    assert app.selectbox(key="metric").value == "awft"
    assert app.slider(key="share").value == 35.0
    assert "**L03.H07**" in said(app)


def test_a_deep_link_keeps_its_view_where_another_session_opens_at_once(scored, monkeypatch):
    """Streamlit has decided to run the page by itself, and then another session's run takes its mark away."""

    def late():
        PagesManager.uses_pages_directory = False
        state.through_router()

    monkeypatch.setattr(parts, "through_router", late)
    app = open_app(metric="awft", share="35.0")
    app.switch_page("pages/heads.py").run()
    assert not app.exception
    assert app.selectbox(key="metric").value == "awft"
    assert app.slider(key="share").value == 35.0
    assert app.query_params["metric"] == "awft", "and the URL is not overwritten"
    assert app.sidebar.selectbox


def test_a_model_that_does_not_exist_gets_a_sentence(home, no_worker):
    app = open_app(model="nobody/nothing here")
    app.switch_page("pages/heads.py").run()
    assert not app.exception
    assert any("nobody/nothing here" in error.value for error in app.error)


def test_a_local_model_is_named_alike_before_and_after_it_is_pinned(home, tmp_path, monkeypatch, no_worker):
    save(tmp_path / "mine")
    monkeypatch.setenv("HEADVIZ_MODELS", str(tmp_path))
    settings.cache_clear()
    named = [offered()["mine"]]
    catalog.resolve("mine", settings=settings())
    named.append(offered()["mine"])
    assert named == ["mine (local)"] * 2
    app = open_app(model="mine")
    app.switch_page("pages/heads.py").run()
    assert "mine (local)" in app.selectbox(key="model").options
    assert app.selectbox(key="model").value == "mine"


def test_a_failed_job_says_why_and_can_be_tried_again(home, no_worker):
    app = open_app()
    app.switch_page("pages/heads.py").run()
    digest = local.list_jobs()[0].digest
    local.cancel(digest, "test", everyone=True)
    app.run()
    assert "cancelled" in said(app)
    again = next(button for button in app.button if button.label == "Try again")
    again.click().run()
    assert not app.exception
    assert local.view(digest).state == "queued"


def test_jobs_page_lists_what_was_asked(home, no_worker):
    app = open_app()
    app.switch_page("pages/heads.py").run()
    app.switch_page("pages/jobs.py").run()
    assert not app.exception
    assert "1 running or waiting" in said(app)
    assert "SmolLM2-135M-Instruct (bundled)" in said(app)


def test_a_finished_job_opens_as_the_view_that_asked_for_it(home):
    request = default_request()
    values = of_request(request)
    assert (values["model"], values["inputs"], values["corpus"]) == ("smollm2", 16, "docstrings")
    assert set(values) <= set(VIEW)
    pattern = PatternRequest(model=request.model, data=request.data, input=2, layer=3, head=7)
    assert of_request(pattern)["head"] == "L03.H07"
