"""What a notebook shows: well-formed HTML that says what the result says, on any page."""

import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

import stoptime as st
from stoptime.support.pictures import LOWER_LEFT, MOST_POINTS, UPPER_RIGHT, Curve, card, picture

(LEFT, BOTTOM), (RIGHT, TOP) = LOWER_LEFT, UPPER_RIGHT

X, y = load_diabetes(return_X_y=True)
STOPS = np.geomspace(1, 1e4, 50)


def parsed(html):
    return ET.fromstring(html)  # noqa: S314 - our own


def points(drawn):
    return [
        np.array([pair.split(",") for pair in line.get("points").split()], float)
        for line in drawn.iter("polyline")
    ]


RESULTS = {
    "choice among methods": lambda: st.StoppedRegressorCV().fit(X, y).choice_,
    "choice of one": lambda: st.StoppedRegressorCV("ridge").fit(X, y).choice_,
    "choice per target": lambda: (
        st.StoppedRegressorCV("ridge", per_target=True).fit(X, np.c_[y, X[:, 0]]).choice_
    ),
    "choice without standard error": lambda: (
        st.StoppedRegressorCV("ridge", rule="plug-in").fit(X, y).choice_
    ),
    "choice by score": lambda: st.StoppedRegressorCV("ridge", scoring="r2").fit(X, y).choice_,
    "path": lambda: st.path(X, y, "nesterov-flow", STOPS),
    "path of targets": lambda: st.path(X, np.c_[y, -y], "ridge", STOPS),
    "path of one stop": lambda: st.path(X, y, "ridge", [3.0]),
    "path of no stop": lambda: st.path(X, y, "ridge", []),
    "path with its ends": lambda: st.path(X, y, "ridge", [0, 1, 2, np.inf]),
    "path of conjugate gradients": lambda: st.path(X, y, "conjugate-gradient", [0, 1, 2, 5]),
    "plan": lambda: st.plan(1e-3, method="nesterov", lr=0.1),
    "spectrum": lambda: st.decompose(X, y),
    "spectrum of rank zero": lambda: st.decompose(np.ones((5, 2)), y[:5]),
    "spectrum of rank one": lambda: st.decompose(X[:2], y[:2]),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_well_formed_and_take_the_colours_of_the_page(name):
    html = RESULTS[name]()._repr_html_()
    tree = parsed(html)
    assert tree.tag == "div"
    assert len(tree.find("table").findall("tr")) >= 1
    assert "nan" not in html
    assert not re.search(r"(?<!-)color:(?!inherit)|background", html)
    for line in points(tree):
        assert ((line >= [LEFT, TOP]) & (line <= [RIGHT, BOTTOM])).all()
    assert [text.get("fill") for text in tree.iter("text")].count("currentColor") in {0, 5}


def test_the_dot_of_a_choice_is_the_lowest_point_of_its_curve():
    choice = st.StoppedRegressorCV("nesterov-flow").fit(X, y).choice_
    tree = parsed(choice._repr_html_())
    (dot,) = tree.iter("circle")
    (line,) = points(tree)
    assert float(dot.get("cy")) == BOTTOM == line[:, 1].max()
    assert np.abs(line[:, 0] - float(dot.get("cx"))).min() < 2
    words = [cell.text for cell in tree.iter("td")]
    assert words == ["chosen", f"{choice.stop:.4g}", "3000 ± 190"]


def test_pixels_are_those_of_a_logarithmic_axis():
    x = np.array([1.0, 10.0, 100.0])
    (line,) = points(parsed(picture([Curve(x, [0.0, 1.0, 4.0])], ("x", "y"))))
    np.testing.assert_allclose(line[:, 0], [LEFT, (LEFT + RIGHT) / 2, RIGHT], atol=0.06)
    np.testing.assert_allclose(line[:, 1], [BOTTOM, BOTTOM + (TOP - BOTTOM) / 4, TOP], atol=0.06)
    (line,) = points(parsed(picture([Curve(x, x**2)], ("x", "y"), log_y=True)))
    np.testing.assert_allclose(line[1], (line[0] + line[2]) / 2, atol=0.1)


def test_what_cannot_be_drawn_is_left_out():
    values = [np.nan, 1.0, 2.0, 9.0, 3.0]
    curve = Curve([0.0, 1.0, 2.0, 3.0, np.inf], values, at=(np.inf, 1.0))
    tree = parsed(picture([curve], ("x", "y"), top=5.0))
    assert len(points(tree)[0]) == 2
    assert list(tree.iter("circle")) == []
    assert picture([Curve([0.0, np.inf], [1.0, 1.0])], ("x", "y")) == ""
    flat = points(parsed(picture([Curve([1.0, 2.0], [7.0, 7.0])], ("x", "y"))))[0]
    assert (flat[:, 1] == BOTTOM).all()
    many = np.geomspace(1, 1e6, 100_000)
    assert len(points(parsed(picture([Curve(many, many)], ("x", "y"))))[0]) <= 2 * MOST_POINTS


def test_words_are_escaped():
    html = card("a < b & c", [("<x>",), ("<script>",)])
    assert "<script>" not in html
    assert parsed(html).find("strong").text == "a < b & c"
