"""Threads take turns, re-entrance and forks are refused by name, and no interrupt leaves a turn taken."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time

import pytest

from dpstream import turns
from dpstream.errors import ForkedStream, StreamInUse
from dpstream.turns import Turn, in_turn


class Tickets:
    """Hands out 0, 1, 2, ...; `between` is called between reading the number and writing the next."""

    def __init__(self, between=lambda: None):
        self._turn = Turn()
        self.number = 0
        self.between = between

    def unguarded(self):
        number = self.number
        self.between()
        self.number = number + 1
        return number

    take = in_turn(unguarded)

    def take_inline(self):
        turn = self._turn
        while True:
            try:
                del turn[0]
                break
            except IndexError:
                turn.wait()
        try:
            return self.unguarded()
        finally:
            turn.append(None)


@pytest.fixture
def eager_switching():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def taken_by_threads(take, threads, each):
    """What so many threads are handed, all of it."""
    start, taken = threading.Barrier(threads), [[] for _ in range(threads)]

    def work(mine):
        start.wait()
        for _ in range(each):
            mine.append(take())

    workers = [threading.Thread(target=work, args=(mine,)) for mine in taken]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sorted(number for mine in taken for number in mine)


@pytest.mark.parametrize("threads", [2, 4, 8])
@pytest.mark.parametrize("method", ["take", "take_inline"])
def test_each_ticket_is_handed_out_once(eager_switching, method, threads):
    tickets = Tickets(between=lambda: time.sleep(0))
    assert taken_by_threads(getattr(tickets, method), threads, 400) == list(range(400 * threads))
    assert taken_by_threads(tickets.unguarded, threads, 400) != list(range(400 * threads, 800 * threads))  # the attack


@pytest.mark.parametrize("method", ["take", "take_inline"])
def test_a_call_from_within_a_call_is_refused(method):
    tickets, refused = Tickets(), []

    def again():
        with pytest.raises(StreamInUse, match="called again from within it"):
            getattr(tickets, method)()
        refused.append(True)

    tickets.between = again
    assert getattr(tickets, method)() == 0
    assert refused == [True]
    tickets.between = lambda: None
    assert getattr(tickets, method)() == 1


def test_a_signal_handler_is_refused_in_the_middle_and_served_otherwise():
    tickets, refused, served = Tickets(), [], []

    def handler(*_):
        try:
            served.append(tickets.take())
        except StreamInUse:
            refused.append(True)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
        tickets.between = lambda: os.kill(os.getpid(), signal.SIGUSR1)
        number = tickets.take()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (served, number, len(refused)) == ([0], 1, 1)


@pytest.mark.usefixtures("no_collection")
def test_interrupts_leave_the_turn_free_and_hand_out_nothing_twice():
    """2,000 timer signals that raise, at all places of the loop."""
    tickets, taken, interrupts = Tickets(between=lambda: sum(range(20))), [], 0

    def handler(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        while interrupts < 2000:
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + interrupts % 97 * 1e-6)
                while True:
                    number = tickets.take_inline() if interrupts % 2 else tickets.take()
                    taken.append(number)
            except KeyboardInterrupt:
                interrupts += 1
                assert tickets._turn == [None]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(set(taken)) == len(taken) > 2000


def in_a_child(work):
    """What `work` returns in a forked child, as text."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child, which reports through the pipe
        with contextlib.suppress(BaseException):
            os.write(write, str(work()).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        text = told.read()
    os.waitpid(child, 0)
    return text


def name_of_error(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "went through"


def test_a_child_is_refused_even_if_another_thread_held_the_turn():
    tickets, inside, go_on = Tickets(), threading.Event(), threading.Event()
    tickets.between = lambda: (inside.set(), go_on.wait())
    holder = threading.Thread(target=tickets.take)
    holder.start()
    inside.wait()
    assert in_a_child(lambda: name_of_error(tickets.take)) == "ForkedStream"
    go_on.set()
    holder.join()
    assert in_a_child(lambda: name_of_error(tickets.take_inline)) == "ForkedStream"
    assert in_a_child(lambda: Tickets().take()) == "0"
    assert tickets.take() == 1


def test_a_child_that_was_forked_in_the_middle_gets_no_result():
    tickets, parent = Tickets(), os.getpid()
    told = []

    def fork():
        child = os.fork()
        if child:
            told.append(os.waitpid(child, 0)[1])

    tickets.between = fork
    try:
        number = tickets.take()
    except ForkedStream:
        # What was under way gave the turn back, and the child still has none.
        again = {name_of_error(tickets.take), name_of_error(tickets.take_inline)}
        os._exit(0 if os.getpid() != parent and again == {"ForkedStream"} else 2)
    if os.getpid() != parent:  # pragma: no cover - the child went on with its parent's number
        os._exit(1)
    assert (number, told) == (0, [0])


def test_the_turn_is_free_after_an_error():
    def fail():
        raise ZeroDivisionError

    tickets = Tickets(between=fail)
    for method in (tickets.take, tickets.take_inline):
        with pytest.raises(ZeroDivisionError):
            method()
    tickets.between = lambda: None
    assert tickets.take() == 0


def test_turns_that_are_gone_are_forgotten():
    kept = [Turn() for _ in range(10)]
    for _ in range(10_000):
        Turn()
    assert len(turns._turns) < 5_000
    alive = {id(known()) for known in turns._turns.values()}
    assert {id(turn) for turn in kept} <= alive
