"""Which fits may start together, by the memory of their devices."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tabapp.engine.machine import devices
from tabapp.engine.machine.admission import GPU_CONTEXT_BYTES, PROCESS_BYTES, Admission, Need
from tabapp.engine.machine.devices import device_class, device_for, gpu_memory
from tabapp.models import registry
from tabapp.models.contract import Shape

GB = 10**9
GPU = "cuda:0"


def on_cpu(n_bytes: int, model: str = "lightgbm") -> Need:
    return Need(model, "cpu", n_bytes)


def on_gpu(n_bytes: int, model: str = "tabm") -> Need:
    return Need(model, GPU, n_bytes)


def test_fits_start_while_their_sum_is_within_the_limit() -> None:
    admission = Admission(4 * GB)
    running = [on_cpu(GB)]
    assert admission.decide(on_cpu(GB), running, overhead=GB).when == "now"
    assert admission.decide(on_cpu(2 * GB), running, overhead=GB).when == "later"
    assert admission.decide(on_cpu(2 * GB), [], overhead=GB).when == "now"


def test_a_fit_that_alone_exceeds_the_limit_never_starts_and_says_why() -> None:
    decision = Admission(8 * 2**30).decide(on_cpu(12 * 2**30), [], overhead=0)
    assert decision.when == "never"
    assert decision.reason == "It needs about 12.1 GiB of memory; 8.0 GiB are allowed (--memory-limit)."


def test_a_lone_fit_starts_although_the_engine_has_taken_its_memory() -> None:
    assert Admission(2 * GB).decide(on_cpu(GB), [], overhead=2 * GB).when == "now"


def test_the_memory_of_a_gpu_bounds_the_fits_on_it_only() -> None:
    admission = Admission(100 * GB, {GPU: 10 * GB})
    most = 10 * GB - 2 * GPU_CONTEXT_BYTES
    assert admission.decide(on_gpu(most), [], overhead=0).when == "now"
    refused = admission.decide(on_gpu(most + 1), [], overhead=0)
    assert refused.when == "never"
    assert refused.reason.endswith("are free on cuda:0.")
    assert admission.decide(on_cpu(20 * GB), [on_gpu(most)], overhead=0).when == "now"
    assert Admission(100 * GB, {GPU: None}).decide(on_gpu(most + 1), [], overhead=0).when == "now"


def test_measured_memory_corrects_the_estimates_of_a_model() -> None:
    admission = Admission(3 * GB)
    running = [on_cpu(GB), on_cpu(GB)]
    assert admission.decide(on_cpu(GB), running, overhead=0).when == "later"
    admission.record(on_cpu(GB), GB // 2)
    assert admission.decide(on_cpu(GB), running, overhead=0).when == "now"
    admission.record(on_cpu(GB), 0)
    assert admission.decide(on_cpu(GB), running, overhead=0).when == "now"
    admission.record(on_cpu(GB), 3 * GB)
    assert admission.decide(on_cpu(GB), [on_cpu(GB)], overhead=0).when == "later"
    # A single measurement is no reason to refuse a fit forever.
    assert admission.decide(on_cpu(GB), [], overhead=0).when == "now"
    assert admission.decide(on_cpu(GB, "xgboost"), [on_cpu(GB, "xgboost")], overhead=0).when == "now"


def test_exhausted_memory_doubles_the_expectation() -> None:
    admission = Admission(4 * GB)
    assert admission.decide(on_cpu(GB), [on_cpu(GB)], overhead=0).when == "now"
    admission.record_out_of_memory(on_cpu(GB))
    assert admission.decide(on_cpu(GB), [on_cpu(GB)], overhead=0).when == "later"


def test_a_model_uses_the_device_of_the_run_where_its_plugin_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    large = Shape(1_000_000, 50, 0, 2)

    def device_of(name: str, device: str = GPU) -> str:
        return device_for(registry.get(name), "binary", large, device)

    assert (device_of("mlp"), device_of("xgboost"), device_of("lightgbm")) == (GPU, GPU, "cpu")
    assert (device_of("mlp", "cpu"), device_of("xgboost", "cpu")) == ("cpu", "cpu")
    # Another device than that of the run is not admitted by anything.
    monkeypatch.setattr(type(registry.get("lightgbm")), "device_for", lambda *_: "cuda:7")
    assert device_of("lightgbm") == "cpu"


def test_classes_of_devices() -> None:
    assert (device_class("cuda:3"), device_class("cpu")) == ("cuda", "cpu")
    assert PROCESS_BYTES > 0


def test_the_free_memory_of_a_gpu_is_that_of_the_visible_device(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\n[ "$1" = --id=GPU-b ] && echo 40000 || echo 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")
    assert gpu_memory("cuda:1") == int(0.95 * 40000 * 2**20)
    program.write_text("#!/bin/sh\nexit 9\n")
    assert gpu_memory("cuda:0") is None


def test_without_the_program_the_memory_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", absent)
    assert devices.gpu_memory("cuda:0") is None
