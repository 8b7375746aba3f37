"""The HTML report: one file that loads and runs nothing, with the numbers of the fit."""

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import stoptime as st
from stoptime.show import report
from stoptime.support.wording import number
from stoptime.tables.results import key_figures

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report on a table whose names are code, and like those of the page's template."""
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(rng.normal(size=(80, 4)), columns=[EVIL, "{{style}}", "x$1$", "x2"])
    frame["town & <b>"] = rng.choice(["</svg><img src=x onerror=alert(2)>", "Oslo", None], 80)
    frame['"price"'] = frame[EVIL] * 3 + (frame["town & <b>"] == "Oslo") + rng.normal(size=80)
    path = tmp_path_factory.mktemp("report") / "report.html"
    report.write(path, st.fit_table(frame, '"price"'))
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


def test_one_file_that_refers_to_nothing_and_runs_nothing(page):
    text = page.read_text()
    found = Outline(text)
    assert not {"script", "img", "link", "iframe", "object"} & set(found.tags)
    for _, name, value in found.attributes:
        assert not name.startswith("on")
        if name in {"href", "src", "xlink:href"}:
            assert value.startswith("#")
    assert len(text) < 600_000
    assert EVIL in "".join(found.text)
    ids = [value for _, name, value in found.attributes if name == "id"]
    titles = {
        value for tag, name, value in found.attributes if tag == "svg" and name == "aria-label"
    }
    assert {"Residuals", "Observed against predicted", "Importance of columns"} <= titles
    clips = [one for one in ids if one.startswith("p") and len(one) == 11]  # of matplotlib
    assert len(clips) == len(set(clips))


def test_the_numbers_are_those_of_the_fit():
    fit = st.fit_table("diabetes", "target")
    text = report.page(fit).replace("\u00a0", " ")
    for _, value, detail in key_figures(fit):
        assert value in text
        assert detail.replace("'", "&#x27;").replace('"', "&quot;") in text
    for one in fit.scores:
        assert one.name in text
    for candidate in fit.model.choice_.candidates:
        assert candidate.method.name in text
    width = number(np.quantile(np.abs(fit.model.left_out_residuals_), 0.9))
    assert f"90% lie between -{width} and {width}" in text
    assert text.count("<td>chosen</td>") == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cv": 5}, "by 5-fold cross-validation"),
        ({"rule": "ncp", "method": "ridge"}, "the rule &quot;ncp&quot;, which chose the stop"),
        ({"method": "ridge", "stops": [1.0, np.inf]}, "least squares"),
        ({"method": st.ConjugateGradient(), "cv": 3}, "no left-out residuals"),
    ],
)
def test_a_report_of_arrays_names_the_rule_that_gave_the_error(tmp_path, rng, options, words):
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + rng.normal(size=60)
    model = st.StoppedRegressorCV(**options).fit(X, y)
    report.write(tmp_path / "r.html", model, X, y, name="income")
    text = (tmp_path / "r.html").read_text()
    assert words in text
    if options.get("cv") == 5:
        assert "R² by leave-one-out" not in text


def test_a_report_names_folds_of_groups(tmp_path, rng):
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + rng.normal(size=60)
    model = st.StoppedRegressorCV("ridge", cv=LeaveOneGroupOut())
    report.write(tmp_path / "r.html", model.fit(X, y, groups=np.arange(60) % 6), X, y)
    assert "by cross-validation" in (tmp_path / "r.html").read_text()


def test_a_report_of_a_pipeline_takes_its_frame(tmp_path, rng):
    frame = pd.DataFrame({"size": rng.normal(size=70), "town": rng.choice(["Oslo", "Rome"], 70)})
    encode = make_column_transformer(
        (OneHotEncoder(), ["town"]), (StandardScaler(), ["size"]), sparse_threshold=1.0
    )
    y = frame["size"] + (frame["town"] == "Oslo") + rng.normal(size=70)
    model = make_pipeline(encode, st.StoppedRegressorCV()).fit(frame, y)
    report.write(tmp_path / "r.html", model, frame, y)
    assert "onehotencoder__town_Oslo" in (tmp_path / "r.html").read_text()
    labels = np.array(["low", "mid", "top"])[np.digitize(y, [-0.5, 0.9])]
    classes = make_pipeline(st.TablePreparation(), st.StoppedClassifierCV()).fit(frame, labels)
    report.write(tmp_path / "c.html", classes, frame, labels, name="level")
    text = (tmp_path / "c.html").read_text()
    for words in ("Confusion matrix", "Calibration curve", "level = low", "predicted mid"):
        assert words in text
    assert "Residuals" not in text


def test_reports_check_what_they_get(tmp_path, rng):
    X = rng.normal(size=(20, 2))
    model = st.StoppedRegressorCV().fit(X, X)
    with pytest.raises(ValueError, match="one target y"):
        report.write(tmp_path / "r.html", model, X, X)
    for other in (st.StoppedRegressor(stop=1.0), st.StoppedKernelRegressorCV()):
        with pytest.raises(TypeError, match=f"got {type(other).__name__}"):
            report.write(tmp_path / "r.html", other.fit(X, X[:, 0]), X, X[:, 0])
    assert not list(tmp_path.iterdir())


CONTRAST = """() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = light(getComputedStyle(document.querySelector('section')).backgroundColor);
  const style = (one) => getComputedStyle(document.querySelector(one));
  const names = ['h2', 'section > p', 'dt', 'thead th'].map(one => style(one).color);
  return [...names, style('figure svg text').fill].map(text => {
    const front = light(text);
    return (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
  });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1100, 390])
def test_it_can_be_read_in_light_and_dark_and_on_a_phone(browser, page, scheme, width):
    wrong, asked = [], []
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab.on("console", lambda message: wrong.append(message.text))
    tab.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(page.as_uri())
    assert tab.locator("h1").text_content().startswith('"price"')
    assert min(tab.evaluate(CONTRAST)) >= 4.5
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.close()
    assert (wrong, asked) == ([], [page.as_uri()])
