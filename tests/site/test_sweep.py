"""Every view of every lesson, at every place of its sliders, says and draws what Python does."""

import pytest
from sweeping import compared, lessons, marked, swept

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("number", lessons())
def test_a_page_says_and_draws_what_python_does(opened, number):
    page = opened(number)
    assert swept(page) > 0 or not page.made.views
    compared(page)
    marked(page)
    assert page.complaints == []
