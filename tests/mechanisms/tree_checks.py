"""Checks that several tree tests share."""

from itertools import product

import numpy as np

from dpstream.mechanisms.base import Mechanism
from dpstream.mechanisms.stack import StackMechanism
from dpstream.participation import Participation


def check_walk(mechanism: StackMechanism, steps: int) -> None:
    """Cursor, entries and moves all tell the same story as the pure step does, to the last bit."""
    counts = [mechanism.draws_at(t) for t in range(1, steps + 1)]
    addresses = {(t + 1, slot): None for t, count in enumerate(counts) for slot in range(count)}
    column = {address: i for i, address in enumerate(addresses)}
    units = np.eye(len(column))
    moves = mechanism.moves(1, steps)
    state = mechanism.start()
    for t in range(1, steps + 1):
        move, _ = mechanism.next_move(state.cursor)
        if moves is not None:
            assert (moves.pops[t - 1], (moves.push[t - 1],)) == (move.pops, move.pushes)
            assert moves.padding[t - 1] == (move.padding[0] if move.padding else 0)
        draws = [units[column[t, slot]] for slot in range(counts[t - 1])]
        _, state = mechanism.advance(state, draws)
        assert state.cursor == mechanism.cursor_after(t)
        entries = mechanism.entries(t)
        if entries is not None:
            assert len(entries) == len(state.stack)
            total = np.zeros(len(column))
            for entry, held in zip(entries, state.stack, strict=True):
                total[column[entry.step, entry.slot]] += entry.weight
                np.testing.assert_allclose(held, total, atol=1e-15)
        assert len(state.stack) <= mechanism.memory
    if moves is not None and steps > 4:
        part = mechanism.moves(steps // 2, 3)
        np.testing.assert_array_equal(part.pops, moves.pops[steps // 2 - 1 : steps // 2 + 2])
        np.testing.assert_array_equal(part.push, moves.push[steps // 2 - 1 : steps // 2 + 2])
        np.testing.assert_array_equal(part.padding, moves.padding[steps // 2 - 1 : steps // 2 + 2])


def worst_pattern(mechanism: Mechanism, steps: int, participation: Participation) -> float:
    """The dearest pattern of participation among all, by trying them."""
    L, R = mechanism.factors(steps)
    if mechanism.sensitivity_of == "releases":
        R = np.linalg.pinv(L) @ np.tri(steps)
    gram = R.T @ R
    columns = np.abs(R).sum(axis=0)
    worst = 0.0
    for pattern in patterns(0, steps, participation.times, participation.separation):
        if mechanism.noise == "laplace":
            worst = max(worst, float(columns[list(pattern)].sum()))
            continue
        products = gram[np.ix_(pattern, pattern)]
        if (products >= -1e-12).all():
            worst = max(worst, float(products.sum()))
        else:
            signs = np.array(list(product((1, -1), repeat=len(pattern))))
            worst = max(worst, float(np.einsum("ki,ij,kj->k", signs, products, signs).max()))
    return worst if mechanism.noise == "laplace" else worst**0.5


def patterns(first, steps, times, separation):
    for j in range(first, steps):
        yield (j,)
        if times > 1:
            for rest in patterns(j + separation, steps, times - 1, separation):
                yield (j, *rest)


def check_participation(mechanism: Mechanism, steps: int) -> None:
    """What is charged covers every pattern, and is never worse than adding up."""
    for times, separation in ((2, 1), (2, 5), (3, 2), (3, 4), (4, 3)):
        participation = Participation(times, separation)
        fitting = Participation(participation.reach(mechanism.horizon), separation)
        charged = mechanism.sensitivity(participation)
        worst = worst_pattern(mechanism, steps, participation)
        assert charged >= worst * (1 - 1e-12)
        assert charged <= fitting.times * mechanism.sensitivity() * (1 + 1e-9)
        if mechanism.horizon is not None and mechanism.sensitivity_is_exact(participation):
            assert abs(charged - worst) < 1e-9
