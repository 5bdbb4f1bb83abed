"""The CPU queue keeps order, waits, reports errors and ends."""

import threading
import time

import pytest

from brrr.timing.cpu_queue import CpuQueue


def test_calls_run_in_order_on_another_thread() -> None:
    done: list[tuple[int, str]] = []
    with CpuQueue() as queue:
        for i in range(100):
            queue.submit(lambda i=i: done.append((i, threading.current_thread().name)))
        queue.synchronize()
    assert [i for i, _ in done] == list(range(100))
    assert {name for _, name in done} == {"brrr-cpu-queue"}


def test_submit_returns_before_the_work_is_done() -> None:
    go = threading.Event()
    done: list[int] = []
    with CpuQueue() as queue:
        queue.submit(lambda: (go.wait(5), done.append(1)))
        assert not done, "submit waited for the work"
        go.set()
        queue.synchronize()
        assert done == [1]


def test_an_error_comes_with_the_next_synchronize_and_only_once() -> None:
    with CpuQueue() as queue:
        queue.submit(lambda: 1 / 0)
        queue.submit(time.sleep, 0)
        with pytest.raises(ZeroDivisionError):
            queue.synchronize()
        queue.synchronize()


def test_a_full_queue_makes_submit_wait() -> None:
    go = threading.Event()
    with CpuQueue(depth=2) as queue:
        queue.submit(go.wait, 5)
        waiting = threading.Thread(target=lambda: [queue.submit(time.sleep, 0) for _ in range(5)])
        waiting.start()
        waiting.join(0.05)
        assert waiting.is_alive(), "five calls went into a queue of two"
        go.set()
        waiting.join(5)
        assert not waiting.is_alive()


def test_closing_twice_is_fine_and_ends_the_worker() -> None:
    queue = CpuQueue()
    queue.close()
    queue.close()
    assert not queue._worker.is_alive()


def test_queues_beside_each_other_are_one_device() -> None:
    """What is noted, timed, waited for, raised and ended of one of them is so of all."""
    with CpuQueue() as queue, queue.noting() as tickets:
        other = CpuQueue(beside=queue)
        for call in (lambda: 1 / 0, lambda: [][0]):
            other.submit(call)
        with pytest.raises(ZeroDivisionError):
            queue.synchronize()
        queue.synchronize()
    assert not other._worker.is_alive()
    assert len(tickets) == len(queue.worked_s) == 2 and all(each.ended_ns for each in tickets)
