"""Help texts without Python's type names."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class RepeatedArgument(TyperCommand):
    """A command whose argument may be repeated, for which typer's help would also name Python's type."""

    def get_help(self, ctx: Any) -> str:
        """The help, with spaces in the place of that type."""
        type_of_list = "<list[str]>"
        return super().get_help(ctx).replace(type_of_list, " " * len(type_of_list))
