"""The HTML report: all of it in one file, nothing of a user's run, and charts that answer."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import stoptime as st
from stoptime.show import report, results
from stoptime.tables import fitting

EVIL = "<script>alert(1)</script>"


def evil_table(folder, rows=80):
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(rng.normal(size=(rows, 12)), columns=[EVIL, *(f"x{i}" for i in range(11))])
    frame["town & <b>"] = rng.choice(["</script><img src=x onerror=alert(2)>", "Oslo", None], rows)
    frame['"price"'] = frame[EVIL] * 3 + (frame["town & <b>"] == "Oslo") + rng.normal(size=rows)
    frame = frame.rename(columns={"x2": "{{script}}"})  # a name like those of the page's template
    frame.loc[1, "x1"] = np.nan
    frame.to_csv(folder / "<i>data.csv", index=False)
    return folder / "<i>data.csv"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    fitted = fitting.fit_table(fitting.Request(str(evil_table(folder)), '"price"'))
    path = folder / "report.html"
    path.write_text(report.of_fit(fitted), encoding="utf-8")
    return path


class Outline(HTMLParser):
    """Tags, attributes and texts of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_data(self, data):
        self.text.append(data)


def until(tab, condition, arg=None):
    """Wait for a condition, because the page's policy forbids Playwright's own polling."""
    for _ in range(100):
        if tab.evaluate(condition, arg):
            return
        tab.wait_for_timeout(50)
    raise AssertionError(condition)


def test_one_small_file_that_refers_to_nothing(page):
    text = page.read_text(encoding="utf-8")
    assert len(text.encode()) < 2 * 2**20
    outline = Outline(text)
    assert not {"link", "img", "iframe", "object", "embed"} & set(outline.tags)
    links = [value for _, name, value in outline.attributes if name in {"src", "href"}]
    assert all(link.startswith("#") for link in links)
    assert "http" not in re.sub(r"http-equiv|http://www\.w3\.org/2000/svg", "", text)


def test_user_strings_are_escaped(page):
    text = page.read_text(encoding="utf-8")
    outline = Outline(text)
    assert outline.tags.count("script") == 2
    assert not [name for _, name, _ in outline.attributes if name.startswith("on")]
    assert EVIL in outline.text
    assert "{{script}}" in outline.text
    charts = re.search(r'id="charts">(.*?)</script>', text, re.DOTALL).group(1)
    assert "<" not in charts
    assert any(series["name"] == EVIL for chart in json.loads(charts) for series in chart["series"])


def test_every_section_is_there_and_labelled(page):
    outline = Outline(page.read_text(encoding="utf-8"))
    ids = [value for _, name, value in outline.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for key in ("error", "paths", "risk", "methods", "intervals", "spectrum", "data", "code"):
        assert key in ids
    assert outline.tags.count("h1") == 1
    assert ("html", "lang", "en") in outline.attributes
    figures = outline.tags.count("figure")
    assert figures == 8
    assert outline.tags.count("details") >= figures  # the numbers of each chart


def test_the_numbers_are_those_of_the_fit(tmp_path):
    X, y = np.random.default_rng(3).normal(size=(2, 60, 5))
    y = X @ np.arange(5.0) + y[:, 0]
    model = st.StoppedRegressorCV(rule=st.LeaveOneOut(standard_errors=True)).fit(X, y)
    report.write(tmp_path / "report.html", model, X, y, features=list("abcde"))
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    charts = {
        one["key"]: one
        for one in json.loads(re.search(r'id="charts">(.*?)</script>', text).group(1))
    }
    band, curve = charts["error"]["series"]
    drawn = np.isfinite(model.stops_) & (model.stops_ > 0)
    np.testing.assert_allclose(np.square(curve["y"]), model.errors_[drawn], rtol=1e-4)
    spread = model.choice_.curve.standard_errors[drawn]
    squares = np.square(band["high"]) - np.square(band["low"])
    np.testing.assert_allclose(squares, 2 * spread, rtol=1e-2)
    assert charts["error"]["marks"][0]["x"] == pytest.approx(model.stop_, rel=1e-5)
    paths = {series["name"]: series for series in charts["paths"]["series"]}
    at = int(np.argmin(np.abs(np.array(paths["e"]["x"]) - model.stop_)))
    for name, coefficient in zip("abcde", model.coef_, strict=True):
        assert paths[name]["y"][at] == pytest.approx(coefficient, rel=1e-4)
    learned = charts["filter"]["series"][1]
    expected = 1 - model.method_.shrinkage(np.array(learned["x"]), model.stop_)
    np.testing.assert_allclose(learned["y"], expected, rtol=1e-4)
    bias, variance, both = charts["risk"]["series"]
    np.testing.assert_allclose(np.add(bias["y"], variance["y"]), both["y"], rtol=1e-4)


def test_a_guarantee_is_rounded_up_and_the_same_everywhere(tmp_path):
    X, y = np.random.default_rng(3).normal(size=(2, 60, 5))
    y = X @ np.arange(5.0) + y[:, 0]
    model = st.StoppedRegressorCV("nesterov-flow").fit(X, y)
    report.write(tmp_path / "report.html", model, X, y)
    texts = Outline((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert texts.count("at worst 1.60 times") == 2  # the tile and the table of methods
    assert not [one for one in texts if "at worst 1.59" in one]


def test_intervals_are_counted_on_rows_held_out(page):
    text = page.read_text(encoding="utf-8")
    charts = {
        one["key"]: one
        for one in json.loads(re.search(r'id="charts">(.*?)</script>', text).group(1))
    }
    interval, inside, outside = charts["intervals"]["series"]
    ends = {
        x: (low, high)
        for x, low, high in zip(*(interval[k] for k in ("x", "low", "high")), strict=True)
    }
    assert len(ends) == 16
    assert all(ends[x][0] <= y <= ends[x][1] for x, y in zip(inside["x"], inside["y"], strict=True))
    assert not any(
        ends[x][0] <= y <= ends[x][1] for x, y in zip(outside["x"], outside["y"], strict=True)
    )
    assert f"Of the held-out values, {len(inside['x'])} (" in text


@pytest.mark.parametrize(
    "request_",
    [
        fitting.Request("data.csv", "y", methods=(st.Nesterov(),)),
        fitting.Request("data.csv", "y", methods=(st.ConjugateGradient(),), cv=3),
        fitting.Request("data.csv", "y", rule="path-gcv"),
        fitting.Request("data.csv", "y", rule="plug-in"),
        fitting.Request("data.csv", "y", rule="one-standard-error"),
        fitting.Request("data.csv", "y", stops=(0.0, 1.0, np.inf)),
        fitting.Request("few.csv", "y"),
        fitting.Request("noiseless.csv", "y"),
        fitting.Request("noise.csv", "y"),
        fitting.Request("wide.csv", "y"),
    ],
    ids=lambda one: f"{one.data} {one.methods[0].name} {one.how}",
)
def test_every_kind_of_fit_has_a_report(tmp_path, monkeypatch, request_):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(11)
    X = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc"))
    X.assign(y=X["a"] + rng.normal(size=40)).to_csv("data.csv", index=False)
    X.assign(y=X["a"] + rng.normal(size=40)).head(6).to_csv("few.csv", index=False)
    X.assign(y=X["a"]).to_csv("noiseless.csv", index=False)
    X.assign(y=rng.normal(size=40)).to_csv("noise.csv", index=False)
    wide = pd.DataFrame(rng.normal(size=(30, 60)))
    wide.assign(y=wide[0] + rng.normal(size=30)).to_csv("wide.csv", index=False)
    assert "</html>" in report.of_fit(fitting.fit_table(request_))


def test_reports_check_what_they_get(tmp_path):
    X, y = np.random.default_rng(3).normal(size=(2, 30, 2))
    model = st.StoppedRegressorCV().fit(X, y[:, 0])
    with pytest.raises(ValueError, match="one target"):
        report.write(tmp_path / "report.html", model, X, y)
    with pytest.raises(ValueError, match="features must name 2"):
        report.write(tmp_path / "report.html", model, X, y[:, 0], features=["a"])
    assert not list(tmp_path.iterdir())


@pytest.fixture
def tab(browser, page):
    """Open the report; whatever goes wrong on the page is an error of the test."""
    wrong, asked = [], []
    tab = browser.new_page(viewport={"width": 1100, "height": 900})
    tab.on(
        "console",
        lambda message: (
            wrong.append(message.text) if message.type in {"error", "warning"} else None
        ),
    )
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(page.as_uri())
    tab.wait_for_selector('figure[data-chart="error"] svg path.line')
    yield tab
    tab.close()
    assert wrong == []
    assert asked == [page.as_uri()]


def plot(tab, key):
    return tab.locator(f'figure[data-chart="{key}"] .plot > svg')


def hover(tab, key, share=0.5):
    plot(tab, key).scroll_into_view_if_needed()
    box = plot(tab, key).bounding_box()
    tab.mouse.move(box["x"] + share * box["width"], box["y"] + 0.4 * box["height"])
    return box


def test_a_hostile_column_is_shown_and_not_run(tab):
    legend = tab.locator('figure[data-chart="paths"] .legend button', has_text="alert(1)")
    assert legend.text_content() == EVIL
    assert tab.locator("main script, main img").count() == 0
    assert tab.locator("h1").text_content().startswith('"price"')


def test_hovering_tells_the_numbers(tab):
    tip = tab.locator('figure[data-chart="error"] .tip')
    assert tip.is_hidden()
    hover(tab, "error")
    assert tip.is_visible()
    assert "estimated error" in tip.text_content()
    inner, outer = tip.bounding_box(), plot(tab, "error").bounding_box()
    assert outer["y"] < inner["y"]
    assert inner["y"] + inner["height"] < outer["y"] + outer["height"]
    stop = float(tip.locator("b").first.text_content())
    hover(tab, "error", 0.8)
    assert float(tip.locator("b").first.text_content()) > stop
    hover(tab, "paths", 0.9)
    near = tab.locator('figure[data-chart="paths"] .tip div')
    assert near.count() == 2  # the stop, and the nearest line alone
    hover(tab, "methods", 0.3)
    assert "± one standard error" in tab.locator('figure[data-chart="methods"] .tip').text_content()


def ticks(tab, key):
    texts = plot(tab, key).locator("text").all_text_contents()
    return [
        float(text.replace("−", "-")) for text in texts if re.fullmatch(r"-?[\d.]+(e-?\d+)?", text)
    ]


def test_dragging_and_the_wheel_zoom_and_reset_goes_back(tab):
    whole = plot(tab, "error").inner_html()
    box = hover(tab, "error", 0.4)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 50, steps=4)
    tab.mouse.up()
    zoomed = ticks(tab, "error")
    assert plot(tab, "error").inner_html() != whole
    tab.mouse.wheel(0, -200)  # the click has given it the focus
    until(
        tab,
        "before => document.querySelector('[data-chart=error] .plot > svg').innerHTML !== before",
        arg=whole,
    )
    tab.locator('figure[data-chart="error"] button', has_text="Reset").click()
    assert ticks(tab, "error") != zoomed
    tab.mouse.move(5, 5)
    assert plot(tab, "error").inner_html() == whole


def test_axes_turn_from_log_to_linear_and_back(tab):
    button = tab.locator('figure[data-chart="error"] button[data-log="x"]')
    before = plot(tab, "error").locator("path.line").get_attribute("d")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert plot(tab, "error").locator("path.line").get_attribute("d") != before
    button.click()
    assert plot(tab, "error").locator("path.line").get_attribute("d") == before


def test_the_keyboard_is_enough(tab):
    plot(tab, "paths").focus()
    said = tab.locator('figure[data-chart="paths"] .said')
    tab.keyboard.press("ArrowRight")
    first = said.text_content()
    tab.keyboard.press("ArrowRight")
    assert said.text_content() != first
    tab.keyboard.press("ArrowDown")
    assert said.text_content().split(",")[1] != first.split(",")[1]
    before = ticks(tab, "paths")
    tab.keyboard.press("+")
    assert ticks(tab, "paths") != before
    tab.keyboard.press("0")
    assert ticks(tab, "paths") == before
    unlabelled = tab.evaluate(
        "[...document.querySelectorAll('button, svg[tabindex], [role=region]')]"
        ".filter(one => !(one.textContent.trim() || one.getAttribute('aria-label'))).length"
    )
    assert unlabelled == 0


def test_series_hide_and_come_back(tab):
    button = tab.locator('figure[data-chart="risk"] .legend button', has_text="variance")
    lines = plot(tab, "risk").locator("path.line")
    assert lines.count() == 3
    button.click()
    assert lines.count() == 2
    button.click()
    assert lines.count() == 3


CONTRAST = """() => {
  const number = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (text) => {
    const [r, g, b] = number(text);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = light(getComputedStyle(document.querySelector('section')).backgroundColor);
  const names = ['h2', 'section > p', 'dt', 'thead th', 'summary', 'figcaption span', 'button'];
  return names.map(name => {
    const front = light(getComputedStyle(document.querySelector(name)).color);
    return (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
  });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_in_both_colour_schemes(tab, scheme):
    tab.emulate_media(color_scheme=scheme)
    assert min(tab.evaluate(CONTRAST)) >= 4.5
    before = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    tab.locator("#theme").click()
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") != before
    assert min(tab.evaluate(CONTRAST)) >= 4.5


def test_a_phone_shows_it_without_sideways_scrolling(tab):
    tab.set_viewport_size({"width": 390, "height": 844})
    until(
        tab, "document.querySelector('[data-chart=error] .plot > svg').viewBox.baseVal.width < 390"
    )
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    widest = tab.evaluate(
        "Math.max(...[...document.querySelectorAll('section')]"
        ".map(one => one.getBoundingClientRect().right))"
    )
    assert widest <= 390


@pytest.mark.parametrize("rule", ["l-curve", "ncp", "discrepancy", "sure", "plug-in"])
def test_the_error_of_a_rule_that_estimates_none_is_that_of_left_out_rows(tmp_path, rule):
    """An angle, a distance, or a training error is no error of a prediction."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["y"] = 1e6 * (X @ [1.0, 2.0, 0.0, 0.5] + 0.3 * rng.normal(size=80))
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    request = fitting.Request(str(path), "y", methods=(st.Ridge(),), rule=rule, compare=False)
    fitted = fitting.fit_table(request)
    found = fitted.assessment
    assert found.error == pytest.approx(np.mean(fitted.model.left_out_residuals_**2))
    assert found.standard_error > 0
    assert results.key_figures(fitted)[0][2].startswith("root mean squared error by leave-one-out")
    if found.guarantee is not None:
        assert "if the equivalent penalty is the best one" in results.key_figures(fitted)[-1][2]
    page = report.of_fit(fitted)
    drawn = {"l-curve": "angle of l-curve", "ncp": "distance of ncp"}.get(rule, "RMSE, in units")
    assert drawn in page


def test_an_error_that_nothing_estimates_is_unknown(tmp_path):
    path = tmp_path / "table.csv"
    pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=list("aby")).to_csv(path)
    methods = (st.Ridge(),)
    request = fitting.Request(str(path), "y", methods, "l-curve", in_memory=False, compare=False)
    fitted = fitting.fit_table(request)
    assert results.key_figures(fitted)[0] == (
        "typical error", "unknown", "l-curve does not estimate it",
    )  # fmt: skip
    assert "unknown" in report.of_fit(fitted)
