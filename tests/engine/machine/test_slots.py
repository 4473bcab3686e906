"""How many fits run at the same time on the cores and on GPUs."""

from __future__ import annotations

import pytest

from tabapp.engine.machine.slots import Slots

A, B = "cuda:0", "cuda:1"


def test_without_a_gpu_all_workers_are_on_the_cores() -> None:
    slots = Slots(4, 2)
    assert (slots.of("cpu"), slots.of("cuda"), slots.gpus) == (4, 0, ())
    assert slots.has_free_core(["cpu"] * 3, keeps=True)
    assert not slots.has_free_core(["cpu"] * 4, keeps=False)
    assert slots.are_full(["cpu"] * 4)
    assert not slots.are_full(["cpu"] * 3)


@pytest.mark.parametrize(("workers", "n_threads", "on_cores"), [(4, 2, 3), (4, 4, 3), (4, 1, 3), (2, 1, 1), (1, 1, 1)])
def test_a_gpu_takes_one_fit_and_a_core_for_it(workers: int, n_threads: int, on_cores: int) -> None:
    slots = Slots(workers, n_threads, [A])
    assert (slots.of("cpu"), slots.of("cuda")) == (on_cores, 1)
    if workers > 1:
        assert slots.of("cpu") * n_threads + slots.of("cuda") <= workers * n_threads
    # Neither device takes the slots of the other.
    assert slots.free_gpus(["cpu"] * 9) == [A]
    assert slots.free_gpus([A]) == []
    assert slots.has_free_core([A], keeps=True)


def test_cores_are_kept_for_a_gpu_only_while_it_may_get_fits() -> None:
    slots = Slots(4, 2, [A])
    assert not slots.has_free_core(["cpu"] * 3, keeps=True)
    assert slots.has_free_core(["cpu"] * 3, keeps=False)
    # A fit on the GPU uses the core of one that ran on the cores.
    assert not slots.has_free_core(["cpu"] * 3 + [A], keeps=False)


def test_several_gpus_take_a_fit_each() -> None:
    slots = Slots(8, 4, [A, B])
    assert slots.free_gpus([]) == [A, B]
    assert slots.free_gpus([A, "cpu"]) == [B]
    assert slots.are_full([A, B] + ["cpu"] * 7)
    assert not slots.are_full([A] + ["cpu"] * 7)


def test_the_gpus_of_a_cluster_have_one_name() -> None:
    slots = Slots(16, 4, [A], 3)
    assert (slots.of("cuda"), slots.of("cpu")) == (3, 15)
    assert slots.free_gpus([A, A]) == [A]
    assert slots.free_gpus([A, A, A]) == []


@pytest.mark.parametrize(
    ("workers", "n_threads", "gpus", "threads"),
    [
        (4, 2, [], [2, 2, 2, 2]),
        (4, 2, [A], [3, 2, 2]),
        (4, 4, [A], [5, 5, 5]),
        (4, 1, [A], [1, 1, 1]),
        (8, 4, [A, B], [5, 5, 4]),
    ],
)
def test_fits_share_the_cores_that_the_slots_of_gpus_leave(
    workers: int, n_threads: int, gpus: list[str], threads: list[int]
) -> None:
    slots, taken = Slots(workers, n_threads, gpus), list[int]()
    for _ in range(slots.of("cpu")):
        taken.append(slots.threads(taken))
    assert taken[: len(threads)] == threads
    assert sum(taken) + len(gpus) == workers * n_threads or not gpus
    # Where the GPU is not used, one more fit takes its core.
    assert slots.threads(taken) == n_threads
    # A fit that ends returns what it had.
    assert slots.threads(taken[1:]) == taken[0]
