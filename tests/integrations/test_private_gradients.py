"""`PrivateGradients`: noise for those who clip themselves."""

import io
import tracemalloc

import numpy as np
import pytest
import torch
from torch import nn

import dpstream as dp
from dpstream.adapters.torch import PrivateGradients
from dpstream.errors import (
    GradientMismatch,
    GradientNotFinite,
    HorizonExceeded,
    InvalidArgument,
    KeyInUse,
    ParametersChanged,
    StepsReleased,
)
from dpstream.noise.keystream import derive_key
from dpstream.testing import fixed_key

MECHANISM = dp.mechanisms.BufferedToeplitz(12)


def net():
    return nn.Sequential(nn.Linear(30, 20), nn.Linear(20, 3))


def private(module=None, **more):
    settings = {
        "horizon": 12,
        "budget": dp.zcdp(0.5),
        "max_grad_norm": 1.0,
        "participation": dp.Participation(3, 4),
        "mechanism": MECHANISM,
        "key": fixed_key("torch"),
        **more,
    }
    return PrivateGradients(net() if module is None else module, **settings)


def sums(module, value=0.0):
    return {name: torch.full_like(p, value, dtype=torch.float32).detach() for name, p in module.named_parameters()}


def stream(run, name, size, dtype="float32"):
    key = derived(run, name, "increments")
    return dp.NoiseStream(run.settings.mechanism, run.settings.scale, size, dtype=dtype, key=key)


def derived(run, name, which):
    configuration = {"name": name, "which": which, "settings": run.settings.identity}
    return derive_key(fixed_key("torch"), purpose="training parameter", configuration=configuration)


def test_each_tensor_gets_the_increments_of_its_own_stream():
    module = net()
    run = private(module)
    streams = {name: stream(run, name, p.numel()) for name, p in module.named_parameters()}
    for step in range(1, 5):
        given = sums(module, 0.5)
        assert run.privatize(given) is given
        for name, gradient in given.items():
            expected = streams[name].increment() + np.float32(0.5)
            assert np.array_equal(gradient.numpy().ravel(), expected), (name, step)


def test_noise_is_written_into_the_gradients_own_memory_whatever_its_layout():
    module = nn.Conv2d(3, 8, 5)
    run = private(module)
    plain = sums(module)
    before = {name: g.data_ptr() for name, g in plain.items()}
    run.privatize(plain)
    assert {name: g.data_ptr() for name, g in plain.items()} == before
    run.close()
    last = sums(module)
    last["weight"] = last["weight"].to(memory_format=torch.channels_last)
    private(module).privatize(last)
    assert torch.equal(plain["weight"], last["weight"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_parameters_of_16_bits_get_noise_of_32(dtype):
    module = net().to(dtype)
    run = private(module)
    given = run.privatize(sums(module))
    name, gradient = next(iter(given.items()))
    assert gradient.dtype == torch.float32
    assert np.array_equal(gradient.numpy().ravel(), stream(run, name, gradient.numel()).increment())
    with pytest.raises(GradientMismatch, match=r"must be torch.float32 of shape"):
        run.privatize({name: g.to(dtype) for name, g in sums(module).items()})
    assert run.t == 1


@pytest.mark.parametrize("mechanism", [dp.mechanisms.SmoothBinary(12), MECHANISM], ids=["tree", "buffers"])
def test_memory_is_that_of_the_mechanism_and_one_vector(mechanism):
    size = 400_000
    parameters = {"w": torch.zeros(size, requires_grad=True)}
    gradient = torch.zeros(size)
    with_imports = private({"w": torch.zeros(100, requires_grad=True)}, mechanism=mechanism)
    with_imports.privatize({"w": torch.zeros(100)})
    with_imports.close()
    tracemalloc.start()
    try:
        run = private(parameters, mechanism=mechanism, threads=1)
        for _ in range(12):
            run.privatize({"w": gradient})
        assert tracemalloc.get_traced_memory()[1] < 4 * size * (mechanism.memory + 1.7)
    finally:
        tracemalloc.stop()


def test_float64_has_noise_of_float64():
    module = net().double()
    run = private(module)
    given = run.privatize({name: torch.zeros_like(p) for name, p in module.named_parameters()})
    assert given["0.weight"].dtype == torch.float64
    expected = stream(run, "0.weight", 600, "float64").increment()
    assert np.array_equal(given["0.weight"].numpy().ravel(), expected)


def test_prefix_noise_for_ftrl():
    """Running sums get the noise of the release, as copies: noise that stayed in them would be added up."""
    module = net()
    run = private(module, which="prefix")
    start = {name: p.detach().clone() for name, p in module.named_parameters()}
    running = sums(module)
    for _ in range(3):
        for name in running:
            running[name] += 0.5
        noisy = run.privatize(running)
        with torch.no_grad():
            for name, p in module.named_parameters():
                p.copy_(start[name] - 0.1 * noisy[name])
    assert all(bool((total == 1.5).all()) for total in running.values())
    key = derived(run, "0.weight", "prefix")
    release = dp.NoiseStream(MECHANISM, run.settings.scale, 600, key=key).block(3)[-1] + np.float32(1.5)
    expected = start["0.weight"].ravel() - 0.1 * torch.from_numpy(release)
    assert torch.equal(module[0].weight.detach().ravel(), expected)


def test_a_checkpoint_through_torch_save(tmp_path):
    module = net()
    run = private(module, key=tmp_path / "run.key")
    for _ in range(4):
        run.privatize(sums(module))
    file = io.BytesIO()
    torch.save(run.state_dict(), file)
    expected = [run.privatize(sums(module))["0.weight"].clone() for _ in range(3)]
    with pytest.raises(KeyInUse):
        private(module, key=tmp_path / "run.key")
    run.close()
    file.seek(0)
    state = torch.load(file, weights_only=True)
    again = private(module, key=tmp_path / "run.key")
    with pytest.raises(StepsReleased, match="discard_later_steps=True"):
        again.load_state_dict(state)
    with pytest.raises(StepsReleased):
        again.privatize(sums(module))
    again.load_state_dict(state, discard_later_steps=True)
    for theirs in expected:
        assert torch.equal(again.privatize(sums(module))["0.weight"], theirs)


# -- bad input: a named error, and nothing is stepped --------------------------------------------------------------


@pytest.mark.parametrize(
    ("spoil", "error", "match"),
    [
        (lambda g: g["0.bias"].fill_(float("nan")), GradientNotFinite, "'0.bias' holds a NaN"),
        (lambda g: g["1.weight"].view(-1)[7:8].fill_(float("inf")), GradientNotFinite, "'1.weight'"),
        (lambda g: g["1.weight"].view(-1)[:1].fill_(-float("inf")), GradientNotFinite, "'1.weight'"),
        (lambda g: g.pop("1.bias"), GradientMismatch, "'1.bias' must be given at every step, got none"),
        (lambda g: g.update(new=torch.zeros(3)), ParametersChanged, "'new' came later"),
        (lambda g: g.update({"1.bias": torch.zeros(1, 3)}), GradientMismatch, r"shape \(3,\), got .* \(1, 3\)"),
        (lambda g: g.update({"1.bias": g["1.bias"].double()}), GradientMismatch, r"got torch.float64"),
        (lambda g: g.update({"1.bias": np.zeros(3)}), GradientMismatch, "a tensor, got ndarray"),
        (lambda g: g["1.bias"].requires_grad_(), GradientMismatch, "detached"),
    ],
)
def test_gradients_that_are_refused(spoil, error, match):
    module = net()
    run = private(module)
    run.privatize(sums(module))
    given = sums(module, 0.25)
    spoil(given)
    kept = {name: g.clone() if isinstance(g, torch.Tensor) else g for name, g in given.items()}
    with pytest.raises(error, match=match):
        run.privatize(given)
    assert run.t == 1
    for name, gradient in given.items():
        assert not isinstance(gradient, torch.Tensor) or torch.equal(
            gradient.detach().nan_to_num(9), kept[name].detach().nan_to_num(9)
        )
    stream_ = stream(run, "0.weight", 600)
    stream_.increment()
    assert np.array_equal(run.privatize(sums(module))["0.weight"].numpy().ravel(), stream_.increment())


def test_more_steps_than_the_horizon():
    module = net()
    run = private(module)
    for _ in range(12):
        run.privatize(sums(module))
    given = sums(module)
    with pytest.raises(HorizonExceeded):
        run.privatize(given)
    assert not given["0.weight"].any()


def test_a_parameter_frozen_or_reshaped_after_the_start():
    module = net()
    run = private(module)
    module[0].bias.requires_grad_(False)
    with pytest.raises(ParametersChanged, match=r"'0.bias' no longer requires a gradient"):
        run.privatize(sums(module))
    module[0].bias.requires_grad_(True)
    module[0].bias.data = torch.zeros(7)
    with pytest.raises(ParametersChanged, match=r"'0.bias' had shape \(20,\), now \(7,\)"):
        run.privatize(sums(module))
    assert run.t == 0


def test_empty_parameters():
    with pytest.raises(InvalidArgument, match="at least one coordinate"):
        private({"w": torch.zeros(0, 3, requires_grad=True)})
    with pytest.raises(InvalidArgument, match="at least one parameter"):
        private({"w": torch.zeros(3)})


def test_a_second_one_on_the_same_stream():
    module = net()
    run = private(module)
    with pytest.raises(KeyInUse):
        private(module)
    run.close()
    private(module).close()


def test_an_interrupted_step_leaves_nothing_to_use(monkeypatch):
    import dpstream.adapters.torch as adapter

    module = net()
    run = private(module)
    calls = []
    real = adapter.add_noise

    def interrupt(gradient, noise):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        real(gradient, noise)

    monkeypatch.setattr(adapter, "add_noise", interrupt)
    given = sums(module)
    with pytest.raises(KeyboardInterrupt):
        run.privatize(given)
    assert all(g.isnan().all() for g in given.values())
    made = run.privatize(sums(module))
    assert run.t == 2
    reference = stream(run, "0.weight", 600)
    reference.increment()
    assert np.array_equal(made["0.weight"].numpy().ravel(), reference.increment())
