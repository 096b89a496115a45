"""Keys of bulk encoding: repeatable, apart for every purpose, and fresh where data changes."""

import sys
import types

import numpy as np
import pytest

from faintly.client.bulk import randomize
from faintly.core import SparseVector, VectorBatch
from faintly.errors import InvalidInput, MissingDependency
from faintly.mechanisms import mechanism_of
from faintly.primitives.entropy import KeyedRng, keyed, seeded
from faintly.spark import keys
from faintly.spark.session import check
from tests.unit.spark.samples import plan_of

KEY, DIGEST = bytes(range(32)), bytes(16)
VECTOR = VectorBatch.of([SparseVector([3, 5], [1.0, -0.5])])
CHANGED = VectorBatch.of([SparseVector([3, 5], [1.0, 0.5])])


def drawn(secret, vector, digest=DIGEST):
    return [rng.words(64).tobytes() for rng in keys.streams(secret, digest, vector)]


def test_the_same_client_draws_the_same_words():
    secret = keys.secret_of(KEY, DIGEST, b"alice")
    assert secret == keys.secret_of(KEY, DIGEST, b"alice")
    assert drawn(secret, VECTOR) == drawn(secret, VECTOR)


def test_nothing_is_shared_between_purposes_clients_plans_and_jobs():
    other_key, other_plan = bytes(range(1, 33)), bytes([1] * 16)
    cases = [(KEY, DIGEST, b"alice"), (KEY, DIGEST, b"bob")]
    cases += [(other_key, DIGEST, b"alice"), (KEY, other_plan, b"alice")]
    found = []
    for key, digest, client in cases:
        secret = keys.secret_of(key, digest, client)
        found += [secret, keys.order_of(key, digest, client), *drawn(secret, VECTOR, digest)]
    assert len(set(found)) == 4 * len(cases)
    assert not any(keys.order_of(*case) in keys.secret_of(*case) for case in cases)


def test_another_vector_gets_fresh_noise_under_the_same_public_seed():
    """The same noise around two vectors would show their difference; seeds depend on neither."""
    secret = keys.secret_of(KEY, DIGEST, b"alice")
    (seeds, noise), (other_seeds, other_noise) = drawn(secret, VECTOR), drawn(secret, CHANGED)
    assert seeds == other_seeds
    assert noise != other_noise


def test_keyed_words_are_a_chacha20_keystream():
    """By the test vector of RFC 8439, appendix A.1, number 1: key and nonce are zero."""
    wanted = bytes.fromhex("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7")
    assert keyed(bytes(32)).words(8).astype("<u4").tobytes() == wanted
    in_steps = KeyedRng(bytes(32))
    assert np.concatenate([in_steps.words(3), in_steps.words(5)]).astype("<u4").tobytes() == wanted


def test_reports_of_keyed_words_follow_the_law_of_others():
    """Mean and spread of many keyed reports are those of seeded ones; of a mutant they are not."""
    plan = plan_of(mechanism="signed-binning", epsilon=1.0)
    mechanism, many = mechanism_of(plan), 1000
    made = []
    for number in range(many):
        secret = keys.secret_of(KEY, plan.digest, number.to_bytes(4, "little"))
        made.append(
            randomize(plan, mechanism, VECTOR, *keys.streams(secret, plan.digest, VECTOR)).fields
        )
    fields = np.concatenate(made).astype(np.float64)
    usual = randomize(
        plan,
        mechanism,
        VectorBatch.of([SparseVector([3, 5], [1.0, -0.5])] * many),
        seeded(1, "public"),
        seeded(1, "secret"),
    ).fields.astype(np.float64)
    spread = np.sqrt((fields.var(axis=0) + usual.var(axis=0)) / many)
    assert (np.abs(fields.mean(axis=0) - usual.mean(axis=0)) < 6 * spread).all()
    assert (np.abs(fields.std(axis=0) / usual.std(axis=0) - 1) < 0.2).all()
    same = np.repeat(fields[:1], many, axis=0)  # mutant: every client has the same key
    assert not (np.abs(same.std(axis=0) / usual.std(axis=0) - 1) < 0.2).all()


@pytest.mark.parametrize("key", [b"short", "text", bytes(32), None])
def test_what_is_no_key_is_refused_and_not_shown(key):
    with pytest.raises(InvalidInput, match="32 random bytes"):
        keys.check_key(key)
    assert keys.check_key(keys.new_key())


def test_hints_without_spark_and_without_java(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingDependency, match="extra spark"):
        check()
    monkeypatch.setitem(sys.modules, "pyspark", types)  # whatever can be imported
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(MissingDependency, match="Java 17") as missing:
        check()
    assert "\n" not in str(missing.value)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingDependency, match="correct JAVA_HOME"):
        check()
