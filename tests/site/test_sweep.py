"""Every view of every lesson moves; comparisons and marks say what Python does."""

import gzip

import pytest
from sweeping import compared, lessons, marked, swept

pytestmark = pytest.mark.browser
MOST_BYTES = 125_000
"""Of a lesson's page as a server sends it, compressed: two thirds of a second on a slow phone (1.6 Mbit/s)."""


@pytest.mark.parametrize("number", [*lessons(), "why"])
def test_a_page_moves_and_marks_as_python_does(opened, number):
    page = opened(number)
    assert swept(page) > 0 or not page.made.views
    compared(page) if number != "why" else None  # it has a table in their place
    marked(page)
    size = len(gzip.compress(page.made.page.encode()))
    print(f"{page.made.name}: {size / 1000:.0f} kB compressed{', too many' if size > MOST_BYTES else ''}")
    assert size <= MOST_BYTES
    assert page.complaints == []
