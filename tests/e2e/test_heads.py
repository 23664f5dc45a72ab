"""A person with a browser: first visit, click a head, move the threshold, copy the link, cancel, come back."""

import os
import re
import signal
import time
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

MAP = ".st-key-map .js-plotly-plot"
LONG = 180_000  # ms; a busy machine converts the bundled model in half a minute


def say(page: Page) -> str:
    return page.locator(".st-key-say").inner_text()


def open_map(page: Page, query: str = "") -> None:
    page.goto(f"/heads{query}")
    page.wait_for_selector(MAP, timeout=LONG)
    expect(page.locator(".st-key-say")).to_contain_text("inactive")


def click_cell(page: Page, layer: int, head: int) -> None:
    """A real mouse click on the middle of a cell, until the page shows that head; axes are in units of cells.

    Again after two seconds: a click in the moment in which the chart is still being laid out meets nothing.
    """
    shown = page.get_by_text(re.compile(rf"^L{layer:02d}\.H{head:02d} is"))
    for _ in range(4):
        place = page.evaluate(
            """([layer, head]) => {
                const plot = document.querySelector('.st-key-map .js-plotly-plot'), full = plot._fullLayout
                plot.scrollIntoView({block: 'center'})
                const box = plot.getBoundingClientRect(), x = full.xaxis, y = full.yaxis
                return [box.left + x._offset + x.l2p(head), box.top + y._offset + y.l2p(layer)]
            }""",
            [layer, head],
        )
        page.mouse.move(*place)
        page.mouse.click(*place)
        page.wait_for_timeout(2_000)
        if shown.is_visible():
            return
    expect(shown).to_be_visible()


def test_first_visit_without_a_cache(page, server):
    """A deep link on a fresh server: the router runs, progress shows, the map comes, torch stays out of the dashboard."""
    page.goto("/heads")
    expect(page.get_by_text("Jobs").first).to_be_visible(timeout=20_000)
    expect(page.locator(".st-key-working")).to_be_visible(timeout=20_000)
    page.wait_for_selector(MAP, timeout=LONG)
    assert re.search(r"\d+ of 270 \(\S+%\) heads are inactive on average", say(page))
    assert page.locator("[data-testid=stSidebar] [data-testid=stSelectbox]").count() >= 2
    maps = Path(f"/proc/{server.process.pid}/maps")
    if maps.exists():
        assert "libtorch" not in maps.read_text()


def test_click_a_head(page):
    open_map(page)
    click_cell(page, 3, 7)
    expect(page).to_have_url(re.compile(r"head=L03\.H07"))
    click_cell(page, 20, 1)
    expect(page).to_have_url(re.compile(r"head=L20\.H01"))


def test_move_the_threshold(page):
    open_map(page)
    before = say(page)
    thumb = page.locator(".st-key-share input[type=range]")
    thumb.focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".st-key-say")).to_contain_text("(25.0%) input × head pairs", timeout=LONG)
    assert say(page) != before
    expect(page).to_have_url(re.compile(r"share=25\.0"))


def test_a_copied_link_shows_the_same_elsewhere(page, browser, server):
    open_map(page, "?metric=awft&share=30.0")
    click_cell(page, 12, 4)
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")
    assert "metric=awft" in link
    assert "seed=0" in link, "a link holds the defaults too"
    elsewhere = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    elsewhere.goto(link)
    elsewhere.wait_for_selector(MAP, timeout=LONG)
    expect(elsewhere.get_by_text("L12.H04 is")).to_be_visible()
    assert say(elsewhere) == say(page)
    elsewhere.context.close()


def test_choose_another_score_on_the_small_maps(page):
    open_map(page, "?panel=scores")
    plot = page.locator(".st-key-all_scores .js-plotly-plot")
    expect(plot).to_be_visible()
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.09, box["y"] + box["height"] * 0.3)  # the first: AWFT
    expect(page.locator(".st-key-say")).to_contain_text("With AWFT above", timeout=10_000)


def test_downloads_carry_provenance(page, tmp_path):
    open_map(page, "?panel=take")
    for label, ending in (
        ("JSON", "json"),
        ("CSV (zip, with its provenance)", "zip"),
        ("PDF", "pdf"),
        ("SVG", "svg"),
        ("Request (JSON)", "json"),
        ("Script and CSV that redraw it (zip)", "zip"),
    ):
        with page.expect_download(timeout=60_000) as download:
            page.get_by_role("button", name=label, exact=True).first.click()
        saved = tmp_path / f"got.{ending}"
        download.value.save_as(saved)
        content = saved.read_bytes()
        assert len(content) > 100
        if ending == "zip":
            with zipfile.ZipFile(saved) as bundle:
                content = bundle.read("provenance.json")
        elif ending == "pdf":
            assert content.startswith(b"%PDF")
            continue  # its text is compressed; tests/unit/test_charts_print.py reads it
        assert b"docstrings" in content


def test_look_inside_one_text(page):
    open_map(page, "?head=L18.H08&inside=true")
    page.wait_for_selector(".st-key-attention_map .js-plotly-plot", timeout=LONG)
    expect(page.locator(".st-key-attention_tracks .js-plotly-plot")).to_be_visible()


def test_cancel_and_try_again(page):
    page.goto("/heads?seed=7&inputs=60")
    cancel = page.get_by_role("button", name="Cancel")
    expect(cancel).to_be_visible(timeout=30_000)
    cancel.click()
    expect(page.get_by_text("cancelled before it finished")).to_be_visible(timeout=15_000)
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("button", name="Cancel")).to_be_visible(timeout=15_000)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("cancelled before it finished")).to_be_visible(timeout=15_000)


def test_of_two_sessions_the_last_one_to_cancel_stops_the_job(page, browser, server):
    path = "/heads?seed=9&inputs=120"
    other = browser.new_context(base_url=server.url).new_page()
    for session in (page, other):
        session.goto(path)
        expect(session.get_by_role("button", name="Cancel")).to_be_visible(timeout=30_000)
    page.wait_for_timeout(1_500)  # both say that they watch
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("You no longer wait for this")).to_be_visible(timeout=10_000)
    expect(other.get_by_role("button", name="Cancel")).to_be_visible()
    other.get_by_role("button", name="Cancel").click()
    expect(other.get_by_text("cancelled before it finished")).to_be_visible(timeout=10_000)
    other.context.close()


def test_the_link_is_right_where_there_is_no_map(page):
    page.goto("/jobs?dtype=bfloat16")
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert "dtype=bfloat16" in page.evaluate("navigator.clipboard.readText()")


def test_a_killed_worker_is_replaced_and_the_job_goes_on(page, server):
    page.goto("/heads?seed=8&inputs=24")
    expect(page.locator(".st-key-working")).to_contain_text("scoring", timeout=LONG)
    before = server.worker_pids()
    assert before
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    page.wait_for_selector(MAP, timeout=LONG)
    assert set(server.worker_pids()).isdisjoint(before)


def test_own_text(page):
    open_map(page)
    page.goto("/heads?corpus=own&tokens=32")
    expect(page.get_by_text("Give some text first")).to_be_visible(timeout=20_000)
    page.get_by_role("button", name="Give a text").click()
    page.get_by_role("textbox", name="Paste text").fill(
        "Attention heads differ. Some of them do nothing at all. " * 12
    )
    page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Use this text").click()
    page.wait_for_selector(MAP, timeout=LONG)
    assert re.search(r"text=[0-9a-f]{64}", page.url)


@pytest.mark.parametrize("path", ["/", "/heads", "/jobs"])
@pytest.mark.parametrize("width", [768, 1280, 1920])
def test_nothing_scrolls_sideways(page, path, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(path)
    page.wait_for_selector(MAP if path == "/heads" else "h1", timeout=LONG)
    time.sleep(1)
    wide = page.evaluate(
        "[document.documentElement.scrollWidth, document.querySelector('[data-testid=stMain]').scrollWidth - "
        "document.querySelector('[data-testid=stMain]').clientWidth]"
    )
    assert wide[0] <= width
    assert wide[1] <= 1
