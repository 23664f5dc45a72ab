"""The bundled ALiBi model on the bands page: its band, one head by distance, and what a link keeps."""

import re

from playwright.sync_api import expect

from tests.e2e.figures import FIGURE, LONG, place

SHORT = "model=alibi-demo&inputs=4&tokens=64"


def test_the_bundled_alibi_model_shows_its_band_and_a_click_its_head_by_distance(page):
    page.goto(f"/bands?{SHORT}")
    page.wait_for_selector(FIGURE.format("bands_map"), timeout=LONG)
    expect(page.get_by_text("induced by us").first).to_be_visible(timeout=LONG)
    said = page.locator(".st-key-say")
    expect(said).to_have_text(
        re.compile(r"of 96.*collapsed onto the first token.*H09 to H15", re.S), timeout=LONG
    )
    page.get_by_role("radio", name="One head by distance").click()
    page.mouse.click(
        *place(page, "bands_map", 12, 3)
    )  # steepest left in either order: BLOOM numbers by slope
    expect(page).to_have_url(re.compile("head=L03.H12"), timeout=LONG)
    page.wait_for_selector(FIGURE.format("kernel"), timeout=LONG)
    expect(page.get_by_text("L03.H12 is")).to_be_visible(timeout=LONG)
    page.reload()
    page.wait_for_selector(FIGURE.format("kernel"), timeout=LONG)
    expect(said).to_have_text(re.compile("H09 to H15"), timeout=LONG)


def test_other_thresholds_move_the_count_and_the_published_bands_can_be_hidden(page):
    page.goto(f"/bands?{SHORT}&order=slope")
    drawn = f"(document.querySelector('{FIGURE.format('by_slope')}')?.data ?? []).map(trace => trace.name)"
    page.wait_for_function(f"() => {drawn}.includes('BLOOM 560m')", timeout=LONG)
    page.locator(".st-key-reported label").first.click()
    page.wait_for_function(f"() => {drawn}.length && !{drawn}.includes('BLOOM 560m')", timeout=LONG)
    expect(page).to_have_url(re.compile("reported=false"), timeout=LONG)
