import numpy as np
import pytest

from onlinehash import Codes, evaluate


def test_the_report_equals_numpys_own_figures():
    rng = np.random.default_rng(0)
    bits = rng.random((400, 9)) < np.linspace(0.1, 0.9, 9)
    bits[:, 1] = bits[:, 0] ^ (rng.random(400) < 0.05)
    health = evaluate.bit_health(bits)
    p = bits.mean(axis=0)
    np.testing.assert_allclose(health.balance, p)
    correlations = np.abs(np.corrcoef(bits.T.astype(float)))
    assert health.correlation == pytest.approx(correlations[~np.eye(9, dtype=bool)].mean())
    assert health.entropy == pytest.approx(np.mean(-p * np.log2(p) - (1 - p) * np.log2(1 - p)))


def test_codes_and_booleans_and_blocks_give_the_same_report(monkeypatch):
    bits = np.random.default_rng(1).random((300, 12)) < 0.5
    whole = evaluate.bit_health(bits)
    monkeypatch.setattr("onlinehash.evaluate.health.BLOCK_ROWS", 64)
    packed = evaluate.bit_health(Codes.from_bits(bits, n_models=3))
    np.testing.assert_array_equal(whole.balance, packed.balance)
    assert (whole.correlation, whole.entropy) == (packed.correlation, packed.entropy)
