"""Pages from templates: the HTML is in a file of its own, and what is put into it is escaped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup


def rendered(package: str, name: str, filters: Mapping[str, Callable[..., str]] | None = None, **values: object) -> str:
    """A template that lies in a package, with these values, and with the look that all pages share as `look`."""
    environment = Environment(
        loader=FunctionLoader(lambda name: files(package).joinpath(name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(filters or {})
    look = Markup(files("onlinehash").joinpath("look.css").read_text(encoding="utf-8"))
    return environment.get_template(name).render(look=look, **values)
