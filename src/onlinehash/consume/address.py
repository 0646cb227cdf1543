"""The address of a source, whose password is never shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from onlinehash import checks
from onlinehash.errors import InvalidInput

#: The schemes, and the parameters that an address of each may have.
SCHEMES = {
    "redis": ("stream", "group", "consumer"),
    "rediss": ("stream", "group", "consumer"),
    "kafka": ("group",),
    "kafka+ssl": ("group",),
}
EXAMPLES = "redis://localhost:6379/0?stream=pairs or kafka://localhost:9092/pairs"


@dataclass(frozen=True)
class Address:
    """`scheme://user:password@hosts/path?parameter=value`."""

    scheme: str
    hosts: str
    path: str
    parameters: dict[str, str]
    user: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse an address. Error messages repeat only the scheme, because the rest may contain a password."""
        scheme, separator, rest = text.partition("://")
        if scheme not in SCHEMES or not separator:
            shown = checks.shown(scheme) if separator else "something else"
            raise InvalidInput(expected=f"a source such as {EXAMPLES}", got=shown)
        parts = urlsplit(f"//{rest}")
        login, _, hosts = parts.netloc.rpartition("@")
        user, _, password = login.partition(":")
        if not hosts or parts.fragment:
            raise InvalidInput(expected=f"a source such as {EXAMPLES}", got=f"{scheme}:// without a host, or with a #")
        known, parameters = SCHEMES[scheme], dict(parse_qsl(parts.query, keep_blank_values=True))
        if unknown := [name for name in parameters if name not in known]:
            raise InvalidInput(
                f"an address of {scheme} has no parameter {checks.shown(unknown[0])}; it takes {', '.join(known)}."
            )
        if empty := [name for name, value in parameters.items() if not value]:
            raise InvalidInput(f"the parameter {empty[0]} of the address has no value.")
        return cls(scheme, hosts, unquote(parts.path.strip("/")), parameters, unquote(user), unquote(password))

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection is encrypted."""
        return self.scheme in ("rediss", "kafka+ssl")


def without_login(text: str) -> str:
    """An address as it may be shown; its parameters may have a password among them, too."""
    scheme, separator, rest = text.partition("://")
    rest = rest.partition("?")[0]
    login, at, place = rest.partition("/")[0].rpartition("@")
    return f"{scheme}{separator}{rest[len(login) + len(at) :]}" if separator and place else text
