"""`private_noise`: the host's noise in optax, eager and compiled; and our mechanisms inside jax_privacy."""

import logging
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax_privacy import noise_addition
from jax_privacy.matrix_factorization import dense, sensitivity

import dpstream as dp
from dpstream.adapters.jax import private_noise, streaming_matrix
from dpstream.errors import (
    GradientMismatch,
    GradientNotFinite,
    HorizonExceeded,
    HorizonRequired,
    InvalidArgument,
    KeyInUse,
    NoiseLawError,
    ParametersChanged,
    StepsReleased,
)
from dpstream.noise.keystream import derive_key
from dpstream.testing import fixed_key

KEY = fixed_key("jax")
MECHANISM = dp.mechanisms.BufferedToeplitz(12)
PARAMS = {"layers": [jnp.zeros((30, 20)), jnp.zeros(20)], "out": jnp.zeros((20, 3))}
SCALE = 2.5


def expected(steps, mechanism=MECHANISM, name="['layers'][0]", size=600):
    configuration = {"name": name, "which": "increments", "settings": ""}
    key = derive_key(KEY, purpose="training parameter", configuration=configuration)
    stream = dp.NoiseStream(mechanism, SCALE, size, key=key)
    return np.array([stream.increment() for _ in range(steps)])


def run(noise, steps, update=None, value=0.0):
    state = noise.init(PARAMS)
    update = noise.update if update is None else update
    made = []
    for _ in range(steps):
        noisy, state = update(jax.tree.map(lambda p: p + value, PARAMS), state)
        made.append(np.asarray(noisy["layers"][0]).ravel())
    return np.array(made), state


@pytest.mark.parametrize(
    "mechanism",
    [
        MECHANISM,
        dp.mechanisms.BalancedToeplitz(12),
        dp.mechanisms.Binary(12),
        dp.mechanisms.SmoothBinary(12),
        dp.mechanisms.Honaker(12),
        dp.mechanisms.GrowingSmooth(),
        dp.mechanisms.FittedToeplitz.fit(12, participation=dp.Participation(3, 4), buffers=2),
        dp.mechanisms.Banded.fit(12, participation=dp.Participation(3, 4)),
        dp.mechanisms.BandedInverse.fit(12, participation=dp.Participation(3, 4), bands=3),
        dp.mechanisms.Independent(12),
    ],
    ids=lambda m: type(m).__name__,
)
def test_eager_and_compiled_updates_have_the_noise_of_the_stream(mechanism):
    reference = expected(5, mechanism)
    eager, _ = run(private_noise(mechanism, SCALE, key=KEY), 5)
    assert np.array_equal(eager, reference)
    noise = private_noise(mechanism, SCALE, key=KEY)
    compiled, state = run(noise, 5, jax.jit(noise.update))
    assert np.array_equal(compiled, reference)
    assert int(state.step) == 5


def test_a_whole_training_loop_in_scan():
    noise = private_noise(MECHANISM, SCALE, key=KEY)
    optimizer = optax.chain(noise, optax.scale(0.1), optax.sgd(1.0, momentum=0.9))

    @jax.jit
    def train(params, state):
        def step(carry, _):
            params, state = carry
            updates, state = optimizer.update(jax.tree.map(jnp.zeros_like, params), state, params)
            return (optax.apply_updates(params, updates), state), updates["layers"][0]

        return jax.lax.scan(step, (params, state), None, length=4)

    _, updates = train(PARAMS, optimizer.init(PARAMS))
    velocity, made = np.zeros(600), []
    for row in expected(4):
        velocity = 0.9 * velocity + 0.1 * row
        made.append(-velocity)
    np.testing.assert_allclose(np.asarray(updates).reshape(4, -1), made, atol=1e-5)


def test_every_leaf_has_its_own_noise():
    noise = private_noise(MECHANISM, SCALE, key=KEY)
    same = {"a": jnp.zeros(4096), "b": jnp.zeros(4096)}
    noisy, _ = noise.update(same, noise.init(same))
    assert abs(np.corrcoef(noisy["a"], noisy["b"])[0, 1]) < 6 / 64  # six standard errors: false alarms below 1e-8


def test_a_sharded_computation_has_the_same_noise():
    """Two virtual devices: gradients sharded over them get the noise of the whole."""
    script = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tests.integrations import test_jax as t
assert jax.device_count() == 2
mesh = Mesh(np.array(jax.devices()), ("shard",))
sharding = NamedSharding(mesh, PartitionSpec("shard"))
noise = t.private_noise(t.MECHANISM, t.SCALE, key=t.KEY)
params = {"layers": [jax.device_put(jnp.zeros((30, 20)), sharding)]}
state, made = noise.init(params), []
update = jax.jit(noise.update, out_shardings=({"layers": [sharding]}, None))
for _ in range(3):
    noisy, state = update(params, state)
    assert noisy["layers"][0].sharding == sharding
    made.append(np.asarray(noisy["layers"][0]).ravel())
assert np.array_equal(np.array(made), t.expected(3))
"""
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script], env=environment, capture_output=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]


def test_a_default_key_is_fresh():
    rows = [run(private_noise(MECHANISM, SCALE), 1)[0] for _ in range(2)]
    assert not np.array_equal(*rows)


def test_resuming_from_the_number_of_steps(tmp_path):
    path = tmp_path / "run.key"
    noise = private_noise(MECHANISM, SCALE, key=path)
    _, state = run(noise, 4)
    rest = []
    for _ in range(2):
        noisy, state = noise.update(PARAMS, state)
        rest.append(np.asarray(noisy["out"]))
    with pytest.raises(KeyInUse):
        private_noise(MECHANISM, SCALE, key=path).init(PARAMS)
    del noise
    again = private_noise(MECHANISM, SCALE, key=path)
    start = again.init(PARAMS)
    with pytest.raises(StepsReleased, match=r"in JAX with private_noise\(\.\.\., discard_later_steps=True\)"):
        again.update(PARAMS, start)
    old = start._replace(step=start.step + 4)
    with pytest.raises(StepsReleased):
        again.update(PARAMS, old)
    del again
    discarding = private_noise(MECHANISM, SCALE, key=path, discard_later_steps=True)
    discarding.init(PARAMS)
    noisy, new = discarding.update(PARAMS, old)
    assert np.array_equal(noisy["out"], rest[0])
    with pytest.raises(StepsReleased):  # the discarding is done once
        discarding.update(PARAMS, old)
    assert np.array_equal(discarding.update(PARAMS, new)[0]["out"], rest[1])


# -- bad input -----------------------------------------------------------------------------------------------------


def test_past_the_horizon(caplog):
    noise = private_noise(dp.mechanisms.BufferedToeplitz(2), SCALE)
    _, state = run(noise, 2)
    with pytest.raises(HorizonExceeded, match="in JAX a mechanism of more steps"):
        noise.update(PARAMS, state)
    with caplog.at_level(logging.ERROR, "dpstream"):
        noisy, _ = jax.jit(noise.update)(PARAMS, state)
        assert all(bool(jnp.isnan(leaf).all()) for leaf in jax.tree.leaves(noisy))
    assert "step 3 is past the end of this training" in caplog.text


def test_one_step_has_one_noise(caplog):
    """The same state under other gradients would give their difference away."""
    noise = private_noise(MECHANISM, SCALE)
    state = noise.init(PARAMS)
    noise.update(PARAMS, state)
    with pytest.raises(StepsReleased):
        noise.update(PARAMS, state)
    with caplog.at_level(logging.ERROR, "dpstream"):
        noisy, _ = jax.jit(noise.update)(PARAMS, state)
        assert bool(jnp.isnan(noisy["out"]).all())
    assert "used noise" in caplog.text


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_gradients_that_are_not_finite(value, caplog):
    noise = private_noise(MECHANISM, SCALE, key=KEY)
    bad = {**PARAMS, "out": PARAMS["out"].at[1, 1].set(value)}
    state = noise.init(PARAMS)
    with pytest.raises(GradientNotFinite, match="out"):
        noise.update(bad, state)
    with caplog.at_level(logging.ERROR, "dpstream"):
        noisy, _ = jax.jit(noise.update)(bad, state)
        assert all(bool(jnp.isnan(leaf).all()) for leaf in jax.tree.leaves(noisy))
    assert "NaN or an infinity" in caplog.text
    noisy, _ = noise.update(PARAMS, state)  # no noise was used
    assert np.array_equal(np.asarray(noisy["layers"][0]).ravel(), expected(1)[0])


def test_other_parameters_shapes_and_dtypes():
    noise = private_noise(MECHANISM, SCALE)
    with pytest.raises(ParametersChanged, match="before init"):
        noise.update(PARAMS, None)
    state = noise.init(PARAMS)
    noise.init(PARAMS)
    with pytest.raises(ParametersChanged, match="init was called again with other parameters"):
        noise.init({"w": jnp.zeros(3)})
    with pytest.raises(ParametersChanged, match=r"now .*'new'"):
        noise.update({**PARAMS, "new": jnp.zeros(3)}, state)
    with pytest.raises(GradientMismatch, match=r"float32 of shape \(20, 3\), got float32 of shape \(3, 20\)"):
        noise.update({**PARAMS, "out": jnp.zeros((3, 20))}, state)
    with pytest.raises(GradientMismatch, match="got bfloat16"):
        noise.update({**PARAMS, "out": jnp.zeros((20, 3), jnp.bfloat16)}, state)
    with pytest.raises(InvalidArgument, match="at least one coordinate"):
        private_noise(MECHANISM, SCALE).init({"w": jnp.zeros((0, 2))})
    single = private_noise(MECHANISM, SCALE)
    state = single.init(jnp.zeros(3))
    with pytest.raises(GradientMismatch, match="the gradient sum of 'params' must be"):
        single.update(jnp.zeros(4), state)
    with pytest.raises(GradientNotFinite, match="the gradient sum of 'params' holds"):
        single.update(jnp.full(3, jnp.nan), state)
    with pytest.raises(ParametersChanged, match=r"they were params, now \['w'\].* in JAX the optimizer's init"):
        single.update({"w": jnp.zeros(3)}, state)


def test_several_processes(monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(InvalidArgument, match="across processes use streaming_matrix"):
        private_noise(MECHANISM, SCALE).init(PARAMS)


def test_bad_arguments():
    for scale in (0.0, -1.0, float("nan"), float("inf"), True):
        with pytest.raises(InvalidArgument, match="scale"):
            private_noise(MECHANISM, scale).init(PARAMS)
    with pytest.raises(InvalidArgument, match="mechanism"):
        private_noise("auto", 1.0)
    with pytest.raises(NoiseLawError, match="Gaussian"):
        private_noise(dp.mechanisms.Binary(4, noise="laplace"), 1.0)
    with pytest.raises(HorizonRequired):
        streaming_matrix(dp.mechanisms.GrowingSmooth())
    with pytest.raises(InvalidArgument):
        streaming_matrix(None)


# -- jax_privacy ---------------------------------------------------------------------------------------------------

INVERTIBLE = [
    dp.mechanisms.BufferedToeplitz(48),
    dp.mechanisms.BalancedToeplitz(48),
    dp.mechanisms.SquareRoot(48),
    dp.mechanisms.Binary(48),
    dp.mechanisms.FittedToeplitz.fit(48, participation=dp.Participation(4, 12), buffers=3),
    dp.mechanisms.Banded.fit(48, participation=dp.Participation(4, 12)),
    dp.mechanisms.BandedInverse.fit(48, participation=dp.Participation(4, 12), bands=4),
]
NAMED = pytest.mark.parametrize("mechanism", INVERTIBLE, ids=lambda m: type(m).__name__)


@NAMED
def test_streaming_matrices_are_ours(mechanism):
    made = np.asarray(streaming_matrix(mechanism).materialize(48))
    np.testing.assert_allclose(made, np.diff(mechanism.factors()[0], axis=0, prepend=0.0), atol=1e-5)


@NAMED
def test_errors_and_sensitivities_agree(mechanism):
    """Its functions on our matrices against our formulas, to 1e-5."""
    inverse = np.asarray(streaming_matrix(mechanism).materialize(48), dtype=np.float64)
    errors = dense.per_query_error(noising_matrix=jnp.asarray(inverse))
    np.testing.assert_allclose(errors, mechanism.variance() / mechanism.sensitivity() ** 2, rtol=1e-5)
    C = np.linalg.inv(inverse)
    once = sensitivity.single_participation_sensitivity(jnp.asarray(C))
    assert float(once) == pytest.approx(mechanism.sensitivity(), rel=1e-5)


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype int64")
@pytest.mark.parametrize("mechanism", INVERTIBLE[:1] + INVERTIBLE[2:3], ids=lambda m: type(m).__name__)
def test_sensitivities_of_several_epochs_agree(mechanism):
    C = jnp.asarray(np.linalg.inv(np.diff(mechanism.factors()[0], axis=0, prepend=0.0)))
    theirs = sensitivity.get_min_sep_sensitivity_upper_bound(C, min_sep=12, max_participations=4)
    ours = mechanism.sensitivity(dp.Participation(times=4, separation=12))
    exact = sensitivity.fixed_epoch_sensitivity(C, epochs=4)
    assert float(exact) == pytest.approx(ours, rel=1e-5)
    assert ours <= float(theirs) * (1 + 1e-5)


def test_in_its_privatizer():
    """The covariance of what it adds to 4,096 coordinates, at 6.5 standard errors: false alarms below 1e-7 in all."""
    mechanism, d = dp.mechanisms.BufferedToeplitz(8), 4096
    privatizer = noise_addition.matrix_factorization_privatizer(
        streaming_matrix(mechanism), stddev=1.5, prng_key=jax.random.key(5)
    )
    state = privatizer.init(jnp.zeros(d))
    update = jax.jit(privatizer.update)
    rows = []
    for _ in range(9):
        noisy, state = update(jnp.zeros(d), state)
        rows.append(np.asarray(noisy, dtype=np.float64))
    assert np.isnan(rows.pop()).all()  # past the horizon
    L = np.diff(mechanism.factors()[0], axis=0, prepend=0.0) * 1.5
    target = L @ L.T
    spread = np.sqrt((np.outer(np.diag(target), np.diag(target)) + target**2) / d)
    found = np.array(rows) @ np.array(rows).T / d
    assert np.abs((found - target) / spread).max() < 6.5
    assert np.abs((1.3 * found - target) / spread).max() > 6.5
