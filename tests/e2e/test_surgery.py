"""A person repairs heads: chooses them on the map, launches, watches, finds the same after a reload, and goes on with the result."""

import re

from playwright.sync_api import expect

from tests.e2e.figures import FIGURE, LONG, place
from tests.e2e.test_heads import say

# A few collapsed heads of the bundled ALiBi model, six steps of two short windows: seconds, once the model is loaded.
PLAN = (
    "model=alibi-demo&inputs=4&tokens=64&treat_rule=bos%3E0.5%20%26%20layers%203-3&repair_arms=repair,no-reinit&repair_seeds=0"
    "&other_on=none&train_tokens=64&held_windows=6&repair_steps=6&every=2&recipe=edited&batch=2&accumulate=1&rate=0.001"
    "&repair_threads=1"
)
SAID = ".st-key-say"
FRAMES = f"document.querySelector('{FIGURE.format('film')}')._transitionData._frames.map(frame => frame.name)"


def count(said: str) -> int:
    return int(re.match(r"(\d+) of 96", said)[1])


def test_heads_are_chosen_repaired_watched_and_carried_on(page, browser, server):
    page.goto(f"/surgery?{PLAN}")
    page.wait_for_selector(FIGURE.format("plan_map"), timeout=LONG)
    expect(page.get_by_text("induced by us").first).to_be_visible(timeout=LONG)
    expect(page.locator(SAID)).to_contain_text("numbers are trained", timeout=LONG)
    by_rule = count(say(page))
    page.mouse.click(*place(page, "plan_map", 2, 1))  # a healthy head beside them: from now on by hand
    expect(page.locator(SAID)).to_contain_text(f"{by_rule + 1} of 96", timeout=LONG)
    expect(page.locator(SAID)).to_contain_text("by hand, from rule bos>0.5 & layers 3-3")
    page.mouse.click(*place(page, "plan_map", 2, 1))
    expect(page.locator(SAID)).to_contain_text(f"{by_rule} of 96", timeout=LONG)

    page.get_by_role("button", name="Launch").click()
    expect(page).to_have_url(re.compile("stage=watch&operation=[0-9a-f]{64}"), timeout=LONG)
    expect(page.get_by_text("done, took")).to_be_visible(
        timeout=LONG
    )  # by itself: nothing is clicked meanwhile
    expect(page.locator(SAID)).to_contain_text("A repair is judged over at least 3 seeds", timeout=LONG)
    page.wait_for_selector(FIGURE.format("losses"), timeout=LONG)

    page.get_by_role("radio", name="Film").click()
    page.wait_for_selector(f"{FIGURE.format('film')} .slider-group", timeout=LONG)
    assert page.evaluate(FRAMES) == ["before surgery", "step 0", "step 2", "step 4", "step 6"]
    plays(page)
    before = say(page)
    page.reload()
    page.wait_for_selector(FIGURE.format("film"), timeout=LONG)
    assert say(page) == before
    goes_on(browser, server, page.url, before)


def plays(page) -> None:
    """The slider goes where it is clicked, and the film plays from there to its end."""
    now = page.locator(".st-key-film .slider-group > .slider-label")
    expect(now).to_contain_text("step 6")
    page.evaluate("document.querySelector('.st-key-film').scrollIntoView({block: 'center'})")
    page.wait_for_timeout(1_000)
    rail = page.locator(".st-key-film .slider-rail-touch-rect").bounding_box()
    page.mouse.click(rail["x"] + 2, rail["y"] + rail["height"] / 2)
    expect(now).to_contain_text("before surgery", timeout=LONG)
    page.locator(".st-key-film .updatemenu-button").first.click()
    expect(now).to_contain_text("step 6", timeout=LONG)


def goes_on(browser, server, url: str, before: str) -> None:
    """Another browser sees the same repair, also from a dashboard that was started again, and makes its result a model."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, base_url=server.url)
    other = context.new_page()
    other.goto(url)
    expect(other.locator(SAID)).to_have_text(before, timeout=LONG)
    server.stop()
    server.start()
    other.goto(url)
    expect(other.locator(SAID)).to_have_text(before, timeout=LONG)
    other.get_by_role("radio", name="Continue").click()
    other.get_by_role("button", name="Make it a checkpoint").click()
    expect(other.get_by_text("is in the list of models")).to_be_visible(timeout=LONG)
    address = other.locator("[data-testid=stMain]").get_by_role("link", name="Bands").get_attribute("href")
    assert re.search(r"bands\?model=ALiBi-demo-\d+-repair-[0-9a-f]{8}&dtype=float32", address)
    context.close()
