"""Every view of every lesson, at every place of its sliders, says and draws what Python does."""

import gzip

import pytest
from sweeping import compared, lessons, marked, swept

pytestmark = pytest.mark.browser
MOST_BYTES = 280_000
"""Of a lesson's page as a server sends it, compressed: a second and a half on a slow phone (1.6 Mbit/s)."""


@pytest.mark.parametrize("number", lessons())
def test_a_page_says_and_draws_what_python_does(opened, number):
    page = opened(number)
    assert swept(page) > 0 or not page.made.views
    compared(page)
    marked(page)
    assert len(gzip.compress(page.made.page.encode())) < MOST_BYTES
    assert page.complaints == []
