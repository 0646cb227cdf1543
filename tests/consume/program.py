"""Messages of all kinds, good and bad, and what an index must hold after them, one after the other."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from onlinehash import LiveIndex, OnlineHashing, refresh
from onlinehash.errors import OnlineHashError
from onlinehash.io import files

WIDTH = 8


def new_learner() -> OnlineHashing:
    """A learner whose burn-in lasts for a while."""
    return OnlineHashing(n_bits=16, burn_in=60, random_state=3)


def policy() -> Any:
    """Refreshes now and then."""
    return refresh.every(25)


def as_base64(vector: np.ndarray) -> str:
    """The bytes of a vector as a message has them."""
    return base64.b64encode(vector.tobytes()).decode()


MALFORMED = {
    "a name twice in a payload": b'{"id": 1, "vector": [1, 2], "payload": {"x": 1, "x": 2}}',
    "a field twice": b'{"id": 1, "id": 2, "vector": [1, 2]}',
    "no JSON": b"oops",
    "no object": b"[1, 2]",
    "no UTF-8": b'{"id": "\xff", "vector": [1]}',
    "another field": b'{"a": [1], "b": [1], "similar": true, "colour": 1}',
    "half a pair": b'{"a": [1, 2], "similar": true}',
    "similar is 2": b'{"id_a": 0, "id_b": 1, "similar": 2}',
    "similar is a word": b'{"id_a": 0, "id_b": 1, "similar": "yes"}',
    "text in a vector": b'{"id": 5000, "vector": [1, "x"]}',
    "no base64": b'{"id": 5000, "vector": "?"}',
    "half a number": b'{"id": 5000, "vector": "AAA="}',
    "no vector": b'{"id": 5000}',
    "no numbers": b'{"id": 5000, "vector": []}',
    "nothing to update": b'{"op": "update", "id": 0}',
    "another operation": b'{"op": "upsert", "id": 0, "vector": [1]}',
    "a removal with more": b'{"op": "remove", "id": 0, "vector": [1]}',
    "a bool as an id": b'{"op": "remove", "id": true}',
    "nested too deeply": b'{"id": 5000, "payload": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "nothing": b"",
}

REFUSED = {
    "another width": json.dumps({"id": 5000, "vector": [1.0] * (WIDTH + 1)}).encode(),
    "pairs of two widths": json.dumps({"a": [1.0] * WIDTH, "b": [1.0], "similar": True}).encode(),
    "not finite": json.dumps({"id": 5000, "vector": as_base64(np.full(WIDTH, np.nan, np.float32))}).encode(),
    "too large for float32": json.dumps({"id": 5000, "vector": [1e300] * WIDTH}).encode(),
    "a known id": json.dumps({"id": 0, "vector": [1.0] * WIDTH}).encode(),
    "an unknown id": b'{"op": "remove", "id": 123456}',
    "a pair of unknown items": b'{"id_a": 0, "id_b": 123456, "similar": true}',
    "an id of another kind": json.dumps({"id": "text", "vector": [1.0] * WIDTH}).encode(),
    "a negative weight": b'{"id_a": 0, "id_b": 1, "similar": true, "weight": -1}',
}


def make(n: int, seed: int, bad: float = 0.05) -> list[bytes]:
    """So many messages: items first, then all kinds in runs; a share of them is bad."""
    rng = np.random.default_rng(seed)
    made, alive, next_id = [], list[int](), 0
    wrong = list(MALFORMED.values()) + list(REFUSED.values())

    def vector() -> Any:
        found = rng.standard_normal(WIDTH).astype(np.float32) + np.float32(0.5)
        return as_base64(found) if rng.random() < 0.5 else [float(x) for x in found]

    while len(made) < n:
        kind = "add" if next_id < 12 else str(rng.choice(["pair", "pair", "by id", "add", "update", "remove"]))
        for _ in range(int(rng.integers(1, 9))):
            message: dict[str, Any] = {}
            if rng.random() < bad and next_id >= 12:
                made.append(wrong[int(rng.integers(len(wrong)))])
                continue
            if kind == "add":
                message = {"id": next_id, "vector": vector(), "payload": {"n": next_id}}
                alive.append(next_id)
                next_id += 1
            elif kind == "pair":
                message = {"a": vector(), "b": vector(), "similar": bool(rng.random() < 0.5)}
            elif kind == "by id":
                a, b = rng.choice(alive[1:], 2).tolist()
                message = {"id_a": a, "id_b": b, "similar": int(rng.choice([-1, 1])), "weight": 0.5}
            elif kind == "update":
                message = {"op": "update", "id": int(rng.choice(alive[1:]))}
                parts = int(rng.integers(3))
                message |= {"vector": vector()} if parts != 1 else {}
                message |= {"payload": None if rng.random() < 0.3 else {"m": len(made)}} if parts else {}
            elif kind == "remove" and len(alive) > 8:
                message = {"op": "remove", "id": alive.pop(int(rng.integers(1, len(alive))))}
            if message:
                made.append(json.dumps(message).encode())
    return made[:n]


def perform(index: LiveIndex, data: bytes) -> None:
    """What a message asks for, by the simplest means."""
    message = json.loads(data)
    dtype = message.pop("dtype", "float32")
    for name in ("a", "b", "vector"):
        if isinstance(message.get(name), str):
            message[name] = np.frombuffer(base64.b64decode(message[name]), dtype)
        elif name in message:
            with np.errstate(over="ignore"):
                message[name] = np.array(message[name], dtype)
    operation = message.pop("op", "add")
    if "similar" in message:
        by_id = "id_a" in message
        first, second = (message[name] for name in (("id_a", "id_b") if by_id else ("a", "b")))
        learn = index.learn_pair_by_id if by_id else index.learn_pair
        learn(first, second, message["similar"], message.get("weight", 1.0))
    elif operation == "remove":
        index.remove([message["id"]])
    elif operation == "update":
        payloads = [message["payload"]] if "payload" in message else None
        index.update([message["id"]], message.get("vector"), payloads)
    else:
        index.add([message["id"]], message["vector"], [message.get("payload")])


def after(data: list[bytes]) -> tuple[LiveIndex, list[int]]:
    """An index after these messages, one after the other, and which of them were of no use."""
    index, dead = LiveIndex(new_learner(), policy()), []
    malformed = set(MALFORMED.values())
    for number, message in enumerate(data):
        try:
            if message in malformed:
                dead.append(number)
            else:
                perform(index, message)
        except OnlineHashError:
            dead.append(number)
    return index, dead


def same(index: LiveIndex, expected: LiveIndex) -> bool:
    """Equal learners, to the byte, and equal items; codes are what the encoder makes of them."""
    assert files.to_bytes(index.learner) == files.to_bytes(expected.learner)
    assert index.ids.tolist() == expected.ids.tolist()
    assert index.vectors.tobytes() == expected.vectors.tobytes()
    assert index.payloads_of(index.ids) == expected.payloads_of(expected.ids)
    assert index.encoder is None or index.codes == index.encoder.encode(index.vectors)
    return True
