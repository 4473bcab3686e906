"""What the process that loads a bundle may still read, call and raise, and what is said where it is not confined."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import resource
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tabapp import protections
from tabapp.bundle.confined import sandbox
from tabapp.bundle.confined.box import BoxedPredictor, load_boxed
from tabapp.bundle.confined.box_limits import cpu_seconds, predict_memory, predict_seconds
from tabapp.bundle.confined.box_process import environment
from tabapp.bundle.confined.call_filter import (
    AND,
    AT_LEAST,
    EQUAL,
    LOAD,
    MACHINES,
    RET_ERRNO,
    RETURN,
    Step,
    program_for,
)
from tabapp.bundle.confined.system_calls import ALLOWED, FOR_A_GPU, OPTIONAL_FROM, Numbers, limited_calls
from tabapp.bundle.writing.write import write_bundle
from tabapp.models import registry
from tests.bundle.making import BOOSTERS, fit_candidate, make_contents, register_linear, text_table
from tests.bundle.portable import make_bundle
from tests.hostile import probe
from tests.waiting import HANG_SECONDS

linux = pytest.mark.skipif(sys.platform != "linux", reason="the restrictions are those of Linux")
SECRETS = {"TABAPP_SERVE_TOKEN": "t", "AWS_SECRET_ACCESS_KEY": "k", "GITHUB_TOKEN": "g", "DATABASE_URL": "u"}
FACTS = {
    "/etc/localtime", "/etc/ld.so.cache", "/proc/self/status", "/proc/self/maps", "/proc/cpuinfo", "/proc/meminfo",
    "/sys/devices/system/cpu/online",
}  # fmt: skip
"""Of the files that the probe tries, those with facts about the machine and the process itself."""
PID = 4321


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bundle(tmp_path_factory.mktemp("confined"), "regression", ["linear"])


@pytest.fixture(scope="module")
def offered() -> tuple[str, ...]:
    return protections.offered()


def found_with_secrets(bundle: Path, *, without_landlock: bool = False) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in SECRETS.items():
            monkeypatch.setenv(name, value)
        return probe.found(bundle, without_landlock=without_landlock)


@pytest.fixture(scope="module")
def found(bundle: Path, offered: tuple[str, ...]) -> dict[str, Any]:
    """What the confined process can do."""
    if not {protections.FILES, protections.CALLS} <= set(offered):
        pytest.skip("the kernel does not offer it")
    return found_with_secrets(bundle)


@linux
def test_the_process_reads_facts_about_the_machine_and_itself_only(found: dict[str, Any]) -> None:
    assert found["lists"] == []
    assert set(found["reads"]) <= FACTS


@linux
def test_the_process_can_call_nothing_that_reaches_others(found: dict[str, Any]) -> None:
    assert found["calls"] == []


@linux
def test_the_process_raises_no_limit(found: dict[str, Any]) -> None:
    assert found["raises"] == []


@linux
def test_the_process_knows_no_secrets_of_the_environment(found: dict[str, Any]) -> None:
    assert not set(found["variables"]) & set(SECRETS)


@linux
def test_without_landlock_nothing_but_reading_is_possible(bundle: Path, offered: tuple[str, ...]) -> None:
    if protections.CALLS not in offered:
        pytest.skip("the kernel does not offer it")
    found = found_with_secrets(bundle, without_landlock=True)
    assert "the bundle" in found["reads"]
    assert found["calls"] == []
    assert found["raises"] == []
    assert not set(found["variables"]) & set(SECRETS)


def test_the_environment_is_a_list_of_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in {
        "PATH": "/bin",
        "HOME": str(tmp_path),
        "LC_ALL": "C",
        "PYTHONPATH": "/x",
        "MKL_NUM_THREADS": "2",
        **SECRETS,
    }.items():
        monkeypatch.setenv(name, value)
    passed = environment(tmp_path, "cpu")
    assert {"PATH", "HOME", "LC_ALL", "PYTHONPATH", "MKL_NUM_THREADS", "TABAPP_PLUGINS_DIR"} <= set(passed)
    assert not set(passed) & set(SECRETS)


# -- the filter of system calls ---------------------------------------------------------------------------------------


def decision(program: list[Step], machine: int, number: int, arguments: tuple[int, ...] = ()) -> int | None:
    """What the kernel makes of a call: None to allow it, or the number of an error."""
    data = struct.pack(
        "<IIQ6Q", number, machine, 0, *(argument & (2**64 - 1) for argument in (*arguments, *(0,) * 6)[:6])
    )
    at, value = 0, 0
    while True:
        code, if_true, if_false, operand = program[at]
        at += 1
        if code == LOAD:
            (value,) = struct.unpack_from("<I", data, operand)
        elif code == AND:
            value &= operand
        elif code in (EQUAL, AT_LEAST):
            at += if_true if (value == operand if code == EQUAL else value >= operand) else if_false
        else:
            assert code == RETURN
            return operand & 0xFFFF if operand & 0xFFFF0000 == RET_ERRNO else None


def numbers_of(calls: Numbers, column: int) -> set[int]:
    return {numbers[column] for numbers in calls.values() if numbers[column] is not None}  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("for_gpu", [False, True])
def test_the_filter_allows_the_listed_calls_only(machine: str, for_gpu: bool) -> None:
    column, program = list(MACHINES).index(machine), program_for(machine, PID, for_gpu=for_gpu)
    allowed = numbers_of({**ALLOWED, **(FOR_A_GPU if for_gpu else {})}, column)
    limited = {call.numbers[column] for call in limited_calls(PID)}
    for number in set(range(600)) - limited:
        found = decision(program, MACHINES[machine], number, (-1,) * 6)
        refusal = errno.ENOSYS if number >= OPTIONAL_FROM else errno.EPERM
        assert found == (None if number in allowed else refusal), number


@pytest.mark.parametrize("machine", MACHINES)
def test_no_call_that_reaches_others_is_listed(machine: str) -> None:
    column, program = list(MACHINES).index(machine), program_for(machine, PID)
    for name, numbers in probe.CALLS.items():
        number = numbers[column]
        if number is not None:
            assert decision(program, MACHINES[machine], number, (0,) * 6) in (errno.EPERM, errno.ENOSYS), name


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_refuses_other_architectures(machine: str) -> None:
    program = program_for(machine, PID)
    i386 = 0x40000003
    assert decision(program, i386, 0) == errno.EPERM
    if machine == "x86_64":
        x32_read = 0x40000000
        assert decision(program, MACHINES[machine], x32_read) == errno.ENOSYS


THREAD = 0x3D0F00
ARGUMENTS = {
    # Calls of the process's own libraries.
    ("openat", (0, 0, os.O_RDONLY | os.O_CLOEXEC)): True,
    ("mmap", (0, 4096, 3, 0x22, -1, 0)): True,
    ("mmap", (0, 4096, 1, 0x1, 3, 0)): True,
    ("mmap", (0, 4096, 0, 0x4022, -1, 0)): True,
    ("madvise", (0, 4096, 4)): True,
    ("clone", (THREAD, 0)): True,
    ("clone", (THREAD | 0x400000, 0)): True,
    ("prctl", (15, 0)): True,
    ("fcntl", (0, 1030, 3)): True,
    ("ioctl", (1, 0x5401)): True,
    ("tgkill", (PID, 5, 6)): True,
    ("prlimit64", (0, 3, 0, 8)): True,
    # The same calls, against others.
    ("openat", (0, 0, os.O_WRONLY)): False,
    ("openat", (0, 0, os.O_RDWR | os.O_CLOEXEC)): False,
    ("openat", (0, 0, os.O_CREAT)): False,
    ("openat", (0, 0, os.O_TRUNC)): False,
    ("mmap", (0, 4096, 3, 0x21, -1, 0)): False,
    ("mmap", (0, 4096, 3, 0x122, -1, 0)): False,
    ("mmap", (0, 4096, 3, 0x40022, -1, 0)): False,
    ("madvise", (0, 4096, 9)): False,
    ("madvise", (0, 4096, 100)): False,
    ("clone", (17, 0)): False,
    ("clone", (THREAD | 0x10000000, 0)): False,
    ("clone", (THREAD & ~0x200, 0)): False,
    ("prctl", (4, 1)): False,
    ("prctl", (0x59616D61, 1)): False,
    ("fcntl", (0, 8, 1)): False,
    ("fcntl", (0, 10, 9)): False,
    ("fcntl", (0, 15, 0)): False,
    ("fcntl", (0, 1024, 1)): False,
    ("fcntl", (0, 1026, 1)): False,
    ("fcntl", (0, 4, os.O_NONBLOCK)): False,
    ("ioctl", (3, 0x40086602)): False,
    ("ioctl", (0, 0x5412)): False,
    ("ioctl", (3, 0x4600)): False,
    ("tgkill", (PID + 1, 5, 6)): False,
    ("prlimit64", (PID + 1, 3, 0, 8)): False,
    ("prlimit64", (0, 3, 8, 0)): False,
    ("prlimit64", (0, 3, 2**32, 0)): False,
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("call", "allowed"), ARGUMENTS.items())
def test_arguments_decide(machine: str, call: tuple[str, tuple[int, ...]], allowed: bool) -> None:
    name, arguments = call
    (number,) = {each.numbers[list(MACHINES).index(machine)] for each in limited_calls(PID) if each.name == name}
    assert number is not None
    assert decision(program_for(machine, PID), MACHINES[machine], number, arguments) == (
        None if allowed else errno.EPERM
    )


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("command", "allowed"),
    [(0xC0104629, True), (0x25, True), (0x30000001, True), (0x5401, True), (0x40086602, False), (0x5412, False)],
)
def test_a_gpu_may_be_controlled(machine: str, command: int, allowed: bool) -> None:
    number = {"x86_64": 16, "aarch64": 29}[machine]
    found = decision(program_for(machine, PID, for_gpu=True), MACHINES[machine], number, (3, command))
    assert found == (None if allowed else errno.EPERM)


# -- limits -----------------------------------------------------------------------------------------------------------


@linux
def test_the_program_sets_the_limits_of_each_request(bundle: Path) -> None:
    rows = text_table("regression", n_rows=300, seed=1).drop("outcome", "joined")
    predictor = load_boxed(bundle).predictor
    assert isinstance(predictor, BoxedPredictor)
    for n_rows in (300, 5, 200):
        before = sandbox.private_memory(predictor.pid)
        predictor.predict_frame(rows.head(n_rows))
        soft, _ = resource.prlimit(predictor.pid, resource.RLIMIT_DATA)
        assert before + predict_memory(n_rows, 0) <= soft < before + predict_memory(n_rows, 2**20)
        seconds, _ = resource.prlimit(predictor.pid, resource.RLIMIT_CPU)
        assert seconds <= cpu_seconds(2 * predict_seconds(n_rows)) + HANG_SECONDS
        assert resource.prlimit(predictor.pid, resource.RLIMIT_FSIZE) == (0, 0)
        assert resource.prlimit(predictor.pid, resource.RLIMIT_CORE) == (0, 0)


# -- systems without protections --------------------------------------------------------------------------------------

BOTH = (
    "This system does not provide Landlock and seccomp, so the models of a malicious bundle could read your files, start "
    "programs and use the network. Load only bundles that you trust."
)


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        ((protections.FILES, protections.CALLS, protections.LIMITS), ""),
        ((protections.LIMITS,), BOTH),
        (
            (protections.CALLS,),
            "This system does not provide Landlock, so the models of a malicious bundle could read your files. Load only "
            "bundles that you trust.",
        ),
    ],
)
def test_the_sentence_names_what_is_missing(held: tuple[str, ...], sentence: str) -> None:
    assert protections.sentence_about(held) == sentence


CONTAINER = """
import sys
sys.path.append({root!r})
from tests.hostile.bundles.test_confinement import refuse_like_a_container
refuse_like_a_container()
from tabapp.cli.main import run_command_line
sys.exit(run_command_line(sys.argv[1:]))
"""


def refuse_like_a_container() -> None:
    """Answer calls of Landlock with ENOSYS and seccomp with EPERM from now on, as profiles of containers do."""
    libc = ctypes.CDLL(None, use_errno=True)
    seccomp = {"x86_64": 317, "aarch64": 277}[platform.machine()]
    refusals = {444: errno.ENOSYS, 445: errno.ENOSYS, 446: errno.ENOSYS, seccomp: errno.EPERM}
    steps: list[Step] = [(LOAD, 0, 0, 0)]
    for number, error in refusals.items():
        steps += [(EQUAL, 0, 1, number), (RETURN, 0, 0, RET_ERRNO | error)]
    program = b"".join(struct.pack("<HBBI", *step) for step in [*steps, (RETURN, 0, 0, 0x7FFF0000)])
    content = ctypes.create_string_buffer(program, len(program))
    whole = struct.pack("@HP", len(program) // 8, ctypes.addressof(content))
    no_new_privileges, set_seccomp, by_filter = 38, 22, 2
    assert libc.prctl(no_new_privileges, 1, 0, 0, 0) == 0
    if libc.prctl(set_seccomp, by_filter, whole, 0, 0):
        raise SystemExit(77)


def in_a_container(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-P", "-c", CONTAINER.format(root=str(probe.ROOT)), *arguments],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        cwd=cwd,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip("the kernel does not offer it")
    return done


@linux
@pytest.mark.skipif(platform.machine() not in MACHINES, reason="seccomp is not used here")
def test_missing_protections_are_reported_once(bundle: Path, tmp_path: Path) -> None:
    text_table("regression", n_rows=5, seed=1).drop("outcome", "joined").write_csv(tmp_path / "rows.csv")
    predict = ["predict", str(bundle), "rows.csv"]
    for arguments in (predict, ["inspect", str(bundle)]):
        done = in_a_container(*arguments, cwd=tmp_path)
        assert done.returncode == 0
        assert done.stderr.splitlines() == [f"tabapp: {BOTH}"]
    assert in_a_container(*predict, "-q", cwd=tmp_path).stderr == ""
    facts = json.loads(in_a_container("info", "--json", cwd=tmp_path).stdout)
    assert facts["protections"] == ["no core dumps", "resource limits"]


@linux
def test_info_lists_the_protections_that_a_bundle_gets(bundle: Path, offered: tuple[str, ...]) -> None:
    predictor = load_boxed(bundle).predictor
    assert isinstance(predictor, BoxedPredictor)
    assert set(predictor.protections) == set(offered)


# -- every model ------------------------------------------------------------------------------------------------------

FEW = {"n_trees": 10, "max_epochs": 2, "n_evaluations": 2}


@pytest.mark.slow
@pytest.mark.parametrize("name", registry.names())
def test_every_model_predicts_confined(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = registry.find(name).plugin
    if plugin is None:
        pytest.skip(f"{name} is not installed")
    register_linear(monkeypatch)
    (tmp_path / "fits").mkdir()
    contents = make_contents(tmp_path / "made", "binary")
    fields = set(plugin.params_type.__struct_fields__)
    few = {field: value for field, value in FEW.items() if field in fields}
    params = plugin.params_type(**{**few, **BOOSTERS.get(name, {})})
    candidate = fit_candidate(
        tmp_path / "fits", plugin, params, text_table("binary"), contents.schema, 1.0, tmp_path / "features"
    )
    write_bundle(tmp_path / "model.tabapp", replace(contents, candidates=[candidate]))
    predictor = load_boxed(tmp_path / "model.tabapp").predictor
    rows = text_table("binary", n_rows=1200, seed=4)
    assert predictor.predict_frame(rows).values.shape == (1200, 2)
    typed = predictor.typed_rows(rows.head(10))[0]
    for model in (fold.model for each in predictor.ensemble.candidates for fold in each.folds):
        predictor.decompose(typed, model, 1, typed.head(4))
