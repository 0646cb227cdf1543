"""Pages are made of templates that know every name they use."""

from __future__ import annotations

import pytest
from jinja2 import UndefinedError

from onlinehash.templates import rendered


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="n_base"):
        rendered("onlinehash.demo", "page.html")
