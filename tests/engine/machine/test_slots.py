"""How many fits run at the same time on the cores and on GPUs."""

from __future__ import annotations

import pytest

from tabapp.engine.machine.slots import BUSY_PERCENT, FIRST_SLOTS, MOST_SLOTS, N_MEASUREMENTS, Slots

A, B = "cuda:0", "cuda:1"


def test_without_a_gpu_all_workers_are_on_the_cores() -> None:
    slots = Slots(4, 2)
    assert (slots.of("cpu"), slots.of("cuda"), slots.gpus) == (4, 0, ())
    assert slots.has_free_core(["cpu"] * 3, keeps=True)
    assert not slots.has_free_core(["cpu"] * 4, keeps=False)
    assert slots.are_full(["cpu"] * 4)
    assert not slots.are_full(["cpu"] * 3)


@pytest.mark.parametrize(
    ("workers", "n_threads", "on_cores", "on_gpu"),
    [(4, 2, 3, 2), (4, 4, 3, 2), (4, 1, 2, 2), (2, 1, 1, 1), (1, 1, 1, 1)],
)
def test_a_gpu_has_slots_of_its_own_and_a_core_for_each(
    workers: int, n_threads: int, on_cores: int, on_gpu: int
) -> None:
    slots = Slots(workers, n_threads, [A])
    assert (slots.of("cpu"), slots.of("cuda")) == (on_cores, on_gpu)
    if workers > 1:
        assert slots.of("cpu") * n_threads + slots.of("cuda") <= workers * n_threads
    # Neither device takes the slots of the other.
    assert slots.free_gpus(["cpu"] * 9) == [A]
    assert slots.has_free_core([A] * on_gpu, keeps=True)


def test_cores_are_kept_for_a_gpu_only_while_it_may_get_fits() -> None:
    slots = Slots(4, 2, [A])
    assert not slots.has_free_core(["cpu"] * 3, keeps=True)
    assert slots.has_free_core(["cpu"] * 3, keeps=False)
    # A fit on the GPU uses the core of one that ran on the cores.
    assert not slots.has_free_core(["cpu"] * 3 + [A], keeps=False)


def test_the_gpu_with_the_fewest_fits_comes_first() -> None:
    slots = Slots(8, 4, [A, B])
    assert slots.free_gpus([]) == [A, B]
    assert slots.free_gpus([A, "cpu"]) == [B, A]
    assert slots.free_gpus([A, A, B]) == [B]
    assert slots.are_full([A, A, B, B] + ["cpu"] * 7)
    assert not slots.are_full([A, A, B] + ["cpu"] * 7)


def test_an_idle_gpu_with_full_slots_gets_another_one() -> None:
    slots = Slots(8, 2, [A])
    full = [A] * FIRST_SLOTS

    def measure(percent: float, devices: list[str], times: int = N_MEASUREMENTS) -> int:
        for _ in range(times):
            slots.measured(percent, devices)
        return slots.per_gpu

    assert measure(BUSY_PERCENT + 1, full) == FIRST_SLOTS
    assert measure(10.0, full[1:]) == FIRST_SLOTS, "a free slot says nothing about more of them"
    assert measure(10.0, full, N_MEASUREMENTS - 1) == FIRST_SLOTS
    assert measure(10.0, full, 1) == FIRST_SLOTS + 1
    for _ in range(3):
        measure(10.0, [A] * slots.per_gpu)
    assert slots.per_gpu == MOST_SLOTS
    assert slots.of("cpu") == 8 - MOST_SLOTS // 2


def test_fits_on_a_gpu_take_at_most_half_of_the_cores() -> None:
    slots = Slots(4, 1, [A])
    for _ in range(2 * N_MEASUREMENTS):
        slots.measured(10.0, [A] * slots.per_gpu)
    assert slots.per_gpu == 2


def test_the_gpus_of_a_cluster_take_a_fit_each() -> None:
    slots = Slots(16, 4, [A], 3, may_grow=False)
    for _ in range(2 * N_MEASUREMENTS):
        slots.measured(10.0, [A] * 3)
    assert (slots.of("cuda"), slots.of("cpu")) == (3, 15)
