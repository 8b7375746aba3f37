"""The explorer shows when ridge wins and when it loses, and no search ends in another page."""

import pytest

from show.explorer.test_explorer_page import address_holds, drag, settled, state


def ratios(page):
    rows = page.locator("#table tbody tr")
    cells = [rows.nth(i).locator("td[data-value]").nth(2) for i in range(rows.count())]
    return [float(cell.get_attribute("data-value")) for cell in cells]


@pytest.mark.parametrize(
    ("name", "lean", "verdict"),
    [
        ("Isotropic", 0, "No method shown beats ridge: critical flow comes nearest"),
        ("Smooth", 3, "Ridge loses: accelerated flow has at most 0.33"),
        ("Rough", -2, "No method shown beats ridge: critical flow comes nearest"),
    ],
)
def test_presets_tell_when_ridge_wins(visit, name, lean, verdict):
    page = visit("#theme=dark")
    page.get_by_role("link", name=name).click()
    # of the model: the state changes before it, and the old table is exact until then
    page.wait_for_function("stoptime.app.model.eigenvalues.length === 200")
    settled(page)
    assert state(page)["lean"] == lean
    assert state(page)["theme"] == "dark"
    assert page.locator("#presets a[aria-current=true]").inner_text().startswith(name)
    ridge, *others = ratios(page)
    assert ridge == 1
    assert all(ratio < 0.55 for ratio in others) if lean > 0 else min(others) > 1.005
    assert page.locator("#table td.beats").count() == (len(others) if lean > 0 else 0)
    assert verdict in page.locator("#verdict").inner_text()
    drag(page, "lean", 650)
    page.wait_for_selector("#presets:not(:has([aria-current=true]))")


def test_the_leaning_slider_takes_ridge_from_best_to_beaten(visit):
    page = visit("#target=prediction&show=ridge,gradient-flow&lean=-4&snr=7")
    least = []
    for position in (0, 250, 500, 625, 750, 1000):
        drag(page, "lean", position)
        address_holds(page, f"&lean={8 * position / 1000 - 4:g}&")
        settled(page)
        least.append(ratios(page)[1])
        # the signal keeps its length: the risk at the start of learning is that of the same r²
        total = page.evaluate("stoptime.app.model.spectrum.squares.reduce((a, b) => a + b)")
        assert total == pytest.approx(page.evaluate("stoptime.app.model.spectrum.count"))
    assert min(least[:3]) > 1 > least[3]
    assert sorted(least[2:], reverse=True) == least[2:]


def test_a_search_ends_where_a_change_waits_to_be_drawn(visit):
    page = visit("#show=ridge")
    settled(page)
    # the search for the best stops waits for a word, and frames are late
    page.evaluate("""() => {
      const search = stoptime.inflationSearch;
      stoptime.inflationSearch = function* (...problem) {
        window.searching = true;
        while (!window.mayEnd) yield;
        return yield* search(...problem);
      };
    }""")
    drag(page, "snr", 400)
    page.wait_for_function("window.searching")
    page.evaluate("window.requestAnimationFrame = (draw) => setTimeout(draw, 400)")
    page.evaluate("location.hash = '#show=ridge,gradient-flow'")
    page.wait_for_function("stoptime.app.state.show.length === 2")
    page.evaluate("window.mayEnd = true")
    page.wait_for_selector('#table tr[data-method="gradient-flow"]')
    settled(page)
    assert ratios(page)[0] == 1
    assert page.locator("#table tbody tr").count() == 2
