import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "caching.md"


@pytest.mark.parametrize("block", re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.S | re.M))
def test_what_the_page_shows_runs(block):
    exec(compile(block, str(PAGE), "exec"), {})
