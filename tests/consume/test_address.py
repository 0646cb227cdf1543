"""Addresses: what they say, and that a password is never shown."""

from __future__ import annotations

from onlinehash.consume.address import Address, without_login
from onlinehash.consume.loop import open_source
from tests.support import refused


def test_all_parts():
    address = Address.parse("rediss://me:s%40cret@localhost:6379/2?stream=p%20q&group=g&consumer=c")
    assert (address.hosts, address.path, address.user, address.password) == ("localhost:6379", "2", "me", "s@cret")
    assert address.parameters == {"stream": "p q", "group": "g", "consumer": "c"}
    assert address.is_encrypted
    several = Address.parse("kafka://one:9092,two:9092/pairs")
    assert (several.hosts, several.path, several.is_encrypted) == ("one:9092,two:9092", "pairs", False)


def test_others_are_refused_without_the_password():
    for text in (
        "localhost:6379",
        "http://me:secret@localhost/x",
        "redis://",
        "redis://me:secret@localhost/0?stream=x&colour=secret",
        "redis://me:secret@localhost/0?stream=",
        "redis://me:secret@localhost:port/0?stream=x",
        "kafka://me:secret@localhost",
        "kafka://localhost/a#secret",
    ):
        error = refused(lambda text=text: open_source(Address.parse(text), {}))
        assert not any(word in str(error) for word in ("secret", "me:"))


def test_the_password_is_in_no_name():
    for text in ("redis://me:secret@localhost/0?stream=x", "kafka+ssl://me:secret@localhost:9092/x"):
        address = Address.parse(text)
        source = open_source(address, {})
        assert "secret" not in source.name + repr(address)
        source.close()
    assert without_login("postgresql://me:secret@host:5432/db") == "postgresql://host:5432/db"
    assert without_login("postgresql://host/db?user=me&password=a@b") == "postgresql://host/db"
    assert without_login("items@home") == "items@home"
