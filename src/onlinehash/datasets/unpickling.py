"""Pickles of plain data, read without Python's own reader, which runs whatever a file asks it to run.

The reader below knows the opcodes for numbers, text, bytes, lists, tuples and dicts. It has no way to import or call
anything: a name in the file stays a name, and the few that stand for a NumPy array of numbers are understood here.
Everything else is refused.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from onlinehash.errors import FormatError

ARRAY_TYPE = re.compile(r"b1|[iu][1248]|f[248]")


class Name(NamedTuple):
    """A name in the file; nothing is ever looked up by it."""

    module: str
    name: str


MAKE_ARRAY = (Name("numpy.core.multiarray", "_reconstruct"), Name("numpy._core.multiarray", "_reconstruct"))
ARRAY, TYPE, ENCODE = Name("numpy", "ndarray"), Name("numpy", "dtype"), Name("_codecs", "encode")
KNOWN = {*MAKE_ARRAY, ARRAY, TYPE, ENCODE}


class _Mark:
    """Where the items of a list, tuple or dict begin on the stack."""


class _Array:
    """An array; its values come after it has been named."""

    values: np.ndarray | None = None


class _Type:
    """The type of an array's numbers; its byte order comes later."""

    def __init__(self, code: str) -> None:
        self.code = code


def read(data: bytes, source: str) -> Any:
    """What a pickle of plain data holds."""
    reader = _Reader(data)
    try:
        return reader.run()
    except _Refused as error:
        raise FormatError(f"{source}: expected a pickle of plain data, got {error}; nothing of it was run.") from None
    except (IndexError, KeyError, ValueError, TypeError, struct.error, MemoryError, OverflowError):
        raise FormatError(
            f"{source} is not a pickle of plain data, or it is damaged: reading stopped at byte "
            f"{reader.at:,} of {len(data):,}."
        ) from None


class _Refused(Exception):
    """What no plain data holds."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:
        """Opcode after opcode, until the one that ends."""
        while (opcode := self._take(1)) != b".":
            act = ACTIONS.get(opcode)
            if act is None:
                raise _Refused(f"the opcode {opcode!r}")
            act(self)
        (result,) = self._stack
        return _plain(result)

    def _take(self, n: int) -> bytes:
        if n < 0 or self.at + n > len(self._data):
            raise ValueError("beyond the end")
        self.at += n
        return self._data[self.at - n : self.at]

    def protocol(self, version: int) -> None:
        """Later ones have other ways to write arrays."""
        if version > 4:
            raise _Refused(f"protocol {version}")

    def frame(self, n_bytes: int) -> None:
        """As much as follows at least."""
        if self.at + n_bytes > len(self._data):
            raise ValueError("beyond the end")

    def number(self, format: str) -> int:
        """A number of so many bytes."""
        return int(struct.unpack("<" + format, self._take(struct.calcsize(format)))[0])

    def counted(self, format: str) -> bytes:
        """Bytes after their count."""
        return self._take(self.number(format))

    def line(self) -> str:
        """Text up to the end of a line."""
        end = self._data.index(b"\n", self.at)
        return self._take(end + 1 - self.at)[:-1].decode()

    def push(self, value: Any) -> None:
        """Onto the stack."""
        self._stack.append(value)

    def pop(self) -> Any:
        """From the stack."""
        return self._stack.pop()

    def since_mark(self) -> list[Any]:
        """What came since the last mark."""
        at = max(at for at, value in enumerate(self._stack) if isinstance(value, _Mark))
        items = self._stack[at + 1 :]
        del self._stack[at:]
        return items

    def append(self, items: list[Any]) -> None:
        """To the list on top."""
        self._top(list).extend(items)

    def set_items(self, items: list[Any]) -> None:
        """In the dict on top."""
        self._top(dict).update(zip(items[::2], items[1::2], strict=True))

    def remember(self, key: int) -> None:
        """The top, under a number."""
        self._memo[key] = self._stack[-1]

    def remember_next(self) -> None:
        """The top, under the next number."""
        self.remember(len(self._memo))

    def recall(self, key: int) -> None:
        """What has that number."""
        self.push(self._memo[key])

    def name(self, module: str, name: str) -> None:
        """A name that is known."""
        if Name(module, name) not in KNOWN:
            raise _Refused(f"the name {module}.{name}"[:100])
        self.push(Name(module, name))

    def make(self) -> None:
        """What a known name makes of its arguments."""
        arguments, name = self.pop(), self.pop()
        if name in MAKE_ARRAY and arguments[0] == ARRAY:
            self.push(_Array())
        elif name == TYPE and ARRAY_TYPE.fullmatch(_text(arguments[0])):
            self.push(_Type(_text(arguments[0])))
        elif name == ENCODE and arguments[1:] == ("latin1",):
            self.push(arguments[0].encode("latin1"))
        else:
            raise _Refused(f"{name} of {str(arguments)[:60]}")

    def build(self) -> None:
        """The rest of an array or of its type."""
        state, thing = self.pop(), self._stack[-1]
        if isinstance(thing, _Type):
            order = _text(state[1])
            if order not in ("<", ">", "|", "=") or state[2:5] != (None, None, None):
                raise _Refused("an array of records")
            thing.code = order + thing.code
        elif isinstance(thing, _Array) and isinstance(state[2], _Type):
            _, shape, kind, by_columns, data = state
            element = np.dtype(kind.code)
            if len(data) != math.prod(shape) * element.itemsize:
                raise ValueError("size")
            thing.values = np.frombuffer(data, element).reshape(shape, order="F" if by_columns else "C")
        else:
            raise _Refused("an object")

    def _top(self, kind: type) -> Any:
        if not isinstance(self._stack[-1], kind):
            raise TypeError
        return self._stack[-1]


def _text(value: str | bytes) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else value


def _plain(result: Any) -> Any:
    """Arrays as arrays, where plain data has them: by themselves or in a dict."""
    if isinstance(result, dict):
        return {key: value.values if isinstance(value, _Array) else value for key, value in result.items()}
    return result.values if isinstance(result, _Array) else result


#: The opcodes of plain data in protocols 2 to 4; bytes and text of Python 2 are one, and come as bytes.
ACTIONS: dict[bytes, Callable[[_Reader], None]] = {
    b"\x80": lambda r: r.protocol(r.number("B")),
    b"\x95": lambda r: r.frame(r.number("Q")),
    b"(": lambda r: r.push(_Mark()),
    b"N": lambda r: r.push(None),
    b"\x88": lambda r: r.push(True),
    b"\x89": lambda r: r.push(False),
    b"J": lambda r: r.push(r.number("i")),
    b"K": lambda r: r.push(r.number("B")),
    b"M": lambda r: r.push(r.number("H")),
    b"\x8a": lambda r: r.push(int.from_bytes(r.counted("B"), "little", signed=True)),
    b"U": lambda r: r.push(r.counted("B")),
    b"T": lambda r: r.push(r.counted("i")),
    b"C": lambda r: r.push(r.counted("B")),
    b"B": lambda r: r.push(r.counted("I")),
    b"\x8e": lambda r: r.push(r.counted("Q")),
    b"\x8c": lambda r: r.push(r.counted("B").decode()),
    b"X": lambda r: r.push(r.counted("I").decode()),
    b"}": lambda r: r.push({}),
    b"]": lambda r: r.push([]),
    b")": lambda r: r.push(()),
    b"t": lambda r: r.push(tuple(r.since_mark())),
    b"\x85": lambda r: r.push((r.pop(),)),
    b"\x86": lambda r: r.push((r.pop(), r.pop())[::-1]),
    b"\x87": lambda r: r.push((r.pop(), r.pop(), r.pop())[::-1]),
    b"a": lambda r: r.append([r.pop()]),
    b"e": lambda r: r.append(r.since_mark()),
    b"s": lambda r: r.set_items([r.pop(), r.pop()][::-1]),
    b"u": lambda r: r.set_items(r.since_mark()),
    b"q": lambda r: r.remember(r.number("B")),
    b"r": lambda r: r.remember(r.number("I")),
    b"\x94": lambda r: r.remember_next(),
    b"h": lambda r: r.recall(r.number("B")),
    b"j": lambda r: r.recall(r.number("I")),
    b"c": lambda r: r.name(r.line(), r.line()),
    b"\x93": lambda r: r.name(*(r.pop(), r.pop())[::-1]),
    b"R": lambda r: r.make(),
    b"b": lambda r: r.build(),
}
