"""Noise for all parameters of a model: independent between them, one step for all, resumable, cut anyhow."""

import numpy as np
import pytest

import dpstream as dp
from dpstream import mechanisms
from dpstream.adapters.training_noise import Part, TrainingNoise
from dpstream.adapters.training_settings import TrainingSettings
from dpstream.errors import (
    HorizonExceeded,
    InvalidArgument,
    MechanismTooShort,
    NoiseLawError,
    ParticipationError,
    StateError,
    StepsReleased,
)
from dpstream.noise.keystream import derive_key
from dpstream.testing import fixed_key

PARTS = {"weight": Part((40, 5)), "bias": Part((5,)), "double": Part((70,), dtype="float64")}


def settings(mechanism=None, horizon=24, times=3, separation=8):
    return TrainingSettings.for_training(
        horizon=horizon,
        budget=dp.zcdp(0.5),
        max_grad_norm=1.0,
        participation=dp.Participation(times, separation),
        mechanism=mechanisms.BufferedToeplitz(horizon) if mechanism is None else mechanism,
    )


def noise(key="noise", parts=PARTS, mechanism=None, **more):
    key = fixed_key(key) if isinstance(key, str) else key
    return TrainingNoise(settings(mechanism), parts, key=key, **more)


def written(name, noise):
    """The noise of one part, in a new array."""
    out = np.empty(noise.size, dtype="float64" if name == "double" else "float32")
    noise.write_to(out)
    return out


def take(stream, steps):
    made = []
    for _ in range(steps):
        row = {}
        stream.step(lambda name, noise, row=row: row.update({name: written(name, noise)}))
        made.append(row)
    return made


def flat(rows):
    return np.concatenate([np.concatenate([row[name] for name in sorted(row)]) for row in rows])


MECHANISMS = [
    mechanisms.BufferedToeplitz(24),
    mechanisms.SmoothBinary(24),
    mechanisms.Honaker(24),
    mechanisms.BalancedToeplitz(24),
    mechanisms.FittedToeplitz.fit(24, participation=dp.Participation(3, 8), buffers=2),
    mechanisms.Banded.fit(24, participation=dp.Participation(3, 8)),
]


def test_trainings_of_one_scale_share_no_noise():
    """Attack: twice the norm at four times the budget has the same scale, and under one key had the same noise."""
    tree = mechanisms.SmoothBinary(24)
    both = [
        TrainingSettings.for_training(horizon=24, budget=dp.zcdp(rho), max_grad_norm=norm, mechanism=tree)
        for norm, rho in ((1.0, 0.5), (2.0, 2.0))
    ]
    assert both[0].scale == both[1].scale
    one, other = (take(TrainingNoise(chosen, PARTS, key=fixed_key("noise")), 1)[0] for chosen in both)
    for name in PARTS:
        assert not np.isclose(one[name], other[name]).all()


def test_increments_add_up_to_the_noise_of_the_releases():
    chosen = settings()
    for which in ("increments", "prefix"):
        made = take(noise(which=which), 24)
        for name, part in PARTS.items():
            configuration = {"name": name, "which": which, "settings": chosen.identity}
            key = derive_key(fixed_key("noise"), purpose="training parameter", configuration=configuration)
            stream = dp.NoiseStream(chosen.mechanism, chosen.scale, part.coordinates, dtype=part.dtype, key=key)
            mine = np.array([row[name].astype(float) for row in made])
            assert made[0][name].dtype == part.dtype
            mine = np.cumsum(mine, axis=0) if which == "increments" else mine
            np.testing.assert_allclose(mine, stream.block(24), atol=3e-5)


def test_increments_and_prefix_noise_have_nothing_in_common():
    """4,096 values at 6 standard errors, false alarms below 1e-8: else their difference would be the data's."""
    rows = [take(noise(which=which, parts={"w": Part((4096,))}), 1)[0]["w"] for which in ("increments", "prefix")]
    assert abs(np.corrcoef(rows)[0, 1]) < 6 / 64


def test_the_covariance_is_that_of_the_mechanism():
    """The empirical second moments of 4,096 coordinates, at 6.5 standard errors: false alarms below 1e-7 in all."""
    mechanism, d = mechanisms.BufferedToeplitz(24), 4096
    chosen = settings(mechanism)
    stream = TrainingNoise(chosen, {"w": Part((d,))}, key=fixed_key("covariance"))
    rows = np.array([row["w"] for row in take(stream, 24)], dtype=float) / chosen.scale
    L = mechanism.factors()[0]
    L = L - np.vstack([np.zeros(24), L[:-1]])
    expected = L @ L.T
    spread = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / d)
    assert np.abs((rows @ rows.T / d - expected) / spread).max() < 6.5
    assert np.abs((rows @ rows.T / d * 1.3 - expected) / spread).max() > 6.5


def test_no_two_parameters_share_noise():
    """Two parameters of the same shape: correlations of 4,096 values at 6 standard errors, false alarms below 1e-8."""
    same = {"a": Part((4096,)), "b": Part((4096,))}
    row = take(noise(parts=same), 1)[0]
    assert abs(np.corrcoef(row["a"], row["b"])[0, 1]) < 6 / 64


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
def test_a_cut_parameter_has_the_noise_of_the_whole(mechanism):
    whole = noise(parts={"w": Part((37, 11)), "b": Part((9,))}, mechanism=mechanism, key="cut")
    expected = take(whole, 5)
    whole.close()
    for low, high in ((0, 200), (200, 407), (130, 131), (407, 407), (64, 128)):
        cut = noise(parts={"w": Part((37, 11), low, high), "b": Part((9,), 0, 9)}, mechanism=mechanism, key="cut")
        for mine, theirs in zip(take(cut, 5), expected, strict=True):
            assert np.array_equal(mine.get("w", np.empty(0)), theirs["w"][low:high])
        cut.close()


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
def test_resuming_goes_on_with_the_same_noise(mechanism, tmp_path):
    run = noise(mechanism=mechanism, key=tmp_path / "run.key")
    take(run, 9)
    state = run.state()
    expected = take(run, 6)
    run.close()
    again = noise(mechanism=mechanism, key=tmp_path / "run.key")
    with pytest.raises(StepsReleased):
        again.restore(state)
    assert again.t == 0
    again.restore(state, discard_later_steps=True)
    assert np.array_equal(flat(take(again, 6)), flat(expected))


def test_a_run_cut_otherwise_goes_on_with_the_same_noise(tmp_path):
    run = noise(parts={"w": Part((40, 5))}, key=tmp_path / "run.key")
    take(run, 5)
    state = run.state()
    expected = take(run, 3)
    run.close()
    again = noise(parts={"w": Part((40, 5), 100, 200)}, key=tmp_path / "run.key")
    again.restore(state, discard_later_steps=True)
    for mine, theirs in zip(take(again, 3), expected, strict=True):
        assert np.array_equal(mine["w"], theirs["w"][100:])


def test_an_older_checkpoint_is_refused(tmp_path):
    path = tmp_path / "run.key"
    run = noise(key=path)
    take(run, 4)
    old = run.state()
    take(run, 1)
    new = run.state()
    with pytest.raises(StepsReleased, match="stands after step 4, but up to 5 steps were released"):
        run.restore(old)
    assert run.t == 5
    run.close()
    again = noise(key=path)
    with pytest.raises(StepsReleased):  # from the beginning, without any checkpoint
        take(again, 1)
    again.restore(new)
    take(again, 1)


def test_the_state_holds_neither_key_nor_noise():
    key = fixed_key("secret")
    run = TrainingNoise(settings(), PARTS, key=key)
    row = take(run, 3)[-1]
    kept = repr(run.state()).encode() + b"".join(run.state()["streams"].values())
    assert key not in kept
    assert key.hex().encode() not in kept
    assert row["weight"].tobytes()[:16] not in kept


def test_states_of_other_runs_are_refused():
    run = noise()
    state = run.state()
    run.close()
    other = noise(parts={"weight": Part((40, 5))})
    with pytest.raises(StateError, match="with other settings"):
        other.restore(state)
    for broken in ({}, None, {**state, "format": 2}, {**state, "t": -1}, {**state, "t": 3}, {**state, "t": True}):
        again = noise()
        with pytest.raises(StateError):
            again.restore(broken)
        assert again.t == 0
        again.close()
    foreign = noise(key="another key")
    with pytest.raises(StateError, match="under another key"):
        foreign.restore(state)
    with pytest.raises(StateError, match="give it a key file"):
        noise(key=None).state()


def test_past_the_horizon_is_refused_before_anything():
    run = noise()
    take(run, 24)
    with pytest.raises(HorizonExceeded):
        take(run, 1)
    assert run.t == 24


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
def test_an_interrupted_step_is_given_up(mechanism):
    """Whatever was handed out of it is never made again: the next step has the noise of the next."""
    whole = noise(mechanism=mechanism)
    expected = take(whole, 8)
    whole.close()
    run = noise(mechanism=mechanism)
    take(run, 3)

    def interrupt(name, noise):
        if name == "bias":
            raise KeyboardInterrupt
        written(name, noise)

    with pytest.raises(KeyboardInterrupt):
        run.step(interrupt)
    assert run.check_next_step() == 5
    assert np.array_equal(flat(take(run, 4)), flat(expected[4:]))


def test_what_is_spent():
    chosen = settings()
    assert chosen.spent_after(0) is None
    assert chosen.epsilon_after(0, 1e-6) == 0
    spent = [chosen.spent_after(t).rho for t in (1, 8, 9, 17, 24)]
    assert spent[0] == spent[1] < spent[2] < spent[3] == spent[4]
    assert spent[-1] == pytest.approx(0.5, rel=1e-9)
    approx = TrainingSettings.for_training(
        horizon=24, budget=dp.approx_dp(2, 1e-6), max_grad_norm=0.3, participation=dp.Participation(3, 8)
    )
    assert approx.spent_after(24).epsilon == pytest.approx(2, rel=1e-9)
    assert approx.epsilon_after(24, 1e-6) == pytest.approx(2, rel=1e-9)
    assert approx.epsilon_after(8, 1e-6) < 1.3


def test_the_scale_is_that_of_the_dense_matrices():
    """The gradients of one person, as bad as they can be, through R: at most the sensitivity that is paid for."""
    chosen = settings(mechanisms.BufferedToeplitz(24))
    R = chosen.mechanism.factors()[1]
    worst = max(np.linalg.norm(R[:, start::8][:, :3].sum(axis=1)) for start in range(8))
    assert chosen.scale == pytest.approx(worst / np.sqrt(2 * 0.5), rel=1e-6)


def test_bad_settings():
    good = {"horizon": 10, "budget": dp.zcdp(0.5), "max_grad_norm": 1.0}
    for name, wrong, error in (
        ("horizon", 0, InvalidArgument),
        ("horizon", None, InvalidArgument),
        ("budget", dp.pure_dp(1), NoiseLawError),
        ("budget", 1.0, NoiseLawError),
        ("max_grad_norm", float("nan"), InvalidArgument),
        ("max_grad_norm", -1.0, InvalidArgument),
        ("max_grad_norm", "1", InvalidArgument),
        ("participation", (1, 2), InvalidArgument),
        ("mechanism", "atuo", InvalidArgument),
        ("mechanism", mechanisms.SmoothBinary, InvalidArgument),
        ("mechanism", mechanisms.SmoothBinary(9), MechanismTooShort),
    ):
        with pytest.raises(error):
            TrainingSettings.for_training(**{**good, name: wrong})
    with pytest.raises(ParticipationError):
        dp.Participation(0, 1)
    with pytest.raises(InvalidArgument, match="at least one parameter"):
        TrainingNoise(settings(), {})
    with pytest.raises(InvalidArgument, match="at least one coordinate"):
        TrainingNoise(settings(), {"empty": Part((0, 3))})
    with pytest.raises(InvalidArgument, match="'increments' or 'prefix'"):
        TrainingNoise(settings(), PARTS, which="both")
