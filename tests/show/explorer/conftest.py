"""A browser with the explorer in it."""

import pytest

from stoptime.show import explorer


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    return explorer.write(tmp_path_factory.mktemp("explorer") / "explorer.html").as_uri()


@pytest.fixture
def visit(browser, address):
    """Open the page at a hash; other requests and errors of the page fail the test."""
    contexts, requests, troubles = [], [], []

    def open_page(fragment="", **options):
        # waiting for a condition evaluates text in the page, which its own policy forbids
        defaults = {"viewport": {"width": 1280, "height": 900}, "bypass_csp": True}
        contexts.append(browser.new_context(**{**defaults, **options}))
        page = contexts[-1].new_page()
        page.set_default_timeout(20_000)
        page.on("request", lambda request: requests.append(request.url.partition("#")[0]))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on(
            "console",
            lambda message: troubles.append(message.text) if message.type == "error" else None,
        )
        page.goto(address + fragment)
        page.wait_for_selector("#table[data-exact]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert set(requests) == {address}
    assert troubles == []


@pytest.fixture(scope="module")
def javascript(browser, address):
    """Call a function of the page's mathematics on a list of arguments."""
    page = browser.new_page()
    page.goto(address)

    def call(function, arguments):
        return page.evaluate("([source, list]) => list.map(eval(source))", [function, arguments])

    yield call
    page.close()
