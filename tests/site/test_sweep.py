"""Every view of every lesson says and draws what Python does."""

import gzip

import pytest
from sweeping import compared, lessons, marked, swept

pytestmark = pytest.mark.browser
MOST_BYTES = 125_000
"""Of a lesson's page as a server sends it, compressed: two thirds of a second on a slow phone (1.6 Mbit/s)."""
MORE = {"06b": 140_000, "09b": 310_000, "14": 150_000}
"""Lessons that are above it today, by what each may have."""


@pytest.mark.parametrize("number", lessons())
def test_a_page_says_and_draws_what_python_does(opened, number):
    page = opened(number)
    assert swept(page) > 0 or not page.made.views
    compared(page)
    marked(page)
    size = len(gzip.compress(page.made.page.encode()))
    print(f"{page.made.name}: {size / 1000:.0f} kB compressed{', too many' if size > MOST_BYTES else ''}")
    assert size <= MORE.get(number, MOST_BYTES)
    assert page.complaints == []
