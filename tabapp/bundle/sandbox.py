"""Restricts the current process before it reads a file that may be malicious: files, network, processes, memory, CPU time.

Linux offers Landlock (files, https://docs.kernel.org/userspace-api/landlock.html) and seccomp (system calls,
https://docs.kernel.org/userspace-api/seccomp_filter.html); other systems offer resource limits only. Constants are those of the
kernel headers `linux/landlock.h`, `linux/seccomp.h`, `linux/filter.h`, `linux/audit.h` and `linux/prctl.h`.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

from tabapp.bundle.system_calls import NUMBERS, REPORTED_MISSING

_PR_SET_NO_NEW_PRIVS = 38

# The same on every architecture.
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_LANDLOCK_CREATE_RULESET_VERSION = 1
_LANDLOCK_RULE_PATH_BENEATH = 1
_WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _CONTROL_DEVICE = 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Number of file rights, which are the lowest bits, by Landlock version; version 5 and later have 16."""
_NET_RIGHTS = 0b11
"""Bind and connect TCP sockets, since version 4."""
_SCOPES = 0b11
"""Abstract Unix sockets and signals of other processes, since version 6."""
_WRITE_RIGHTS = (1 << 1) | (1 << 4) | (1 << 5) | (1 << 7) | (1 << 8)
"""Write and remove files, make and remove folders."""

_SECCOMP_SET_MODE_FILTER = 1
_SECCOMP_FILTER_FLAG_TSYNC = 1
_RET_ALLOW, _RET_ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_EPERM, _ENOSYS = 1, 38
_CLONE_THREAD = 0x10000

_SYSTEM_FOLDERS = ("/usr", "/lib", "/lib64", "/lib32", "/etc", "/proc", "/sys", "/nix/store")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")


def restrict_files(readable: Iterable[Path], writable: Iterable[Path] = (), devices: Iterable[Path] = ()) -> bool:
    """Deny opening any file outside these folders, by Landlock. Call it before the process has a second thread.

    Args:
        readable: files and folders that may be read.
        writable: folders that may be changed, too.
        devices: device files that may be read, written and controlled.

    Returns:
        Whether the kernel enforces it.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), _LANDLOCK_CREATE_RULESET_VERSION)
    if version < 1 or libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    handled = (1 << _FILE_RIGHTS.get(version, 16)) - 1
    attributes = struct.pack("<Q", handled)
    if version >= 4:
        attributes += struct.pack("<Q", _NET_RIGHTS)
    if version >= 6:
        attributes += struct.pack("<Q", _SCOPES)
    rules = libc.syscall(_LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if rules < 0:
        return False
    try:
        for path in readable:
            _allow(libc, rules, path, (_READ_FILE | _READ_DIR) & handled)
        for path in writable:
            _allow(libc, rules, path, (_READ_FILE | _READ_DIR | _WRITE_RIGHTS | _TRUNCATE) & handled)
        for path in devices:
            _allow(libc, rules, path, (_READ_FILE | _WRITE_FILE | _CONTROL_DEVICE) & handled)
        return libc.syscall(_LANDLOCK_RESTRICT_SELF, rules, 0) == 0
    finally:
        os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not path.is_dir():
            rights &= ~_READ_DIR
        rule = struct.pack("<Qi", rights, descriptor)
        libc.syscall(_LANDLOCK_ADD_RULE, rules, _LANDLOCK_RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(descriptor)


def restrict_calls() -> bool:
    """Deny system calls that a process without a network, files to write and children does not need, by seccomp.

    It applies to every thread, those that run already included. Threads can still be created. Denied: sockets, programs and
    processes, opening files for writing and changing them in other ways, signals to other processes, debugging, mounts, keys,
    kernel modules, io_uring (whose requests seccomp does not see).

    Returns:
        Whether the kernel enforces it.
    """
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _ARCHITECTURES:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    program = b"".join(struct.pack("<HBBI", *step) for step in _filter(machine, os.getpid()))
    content = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: the number of steps, and a pointer to them.
    whole = struct.pack("@HP", len(program) // 8, ctypes.addressof(content))
    return libc.syscall(_SECCOMP[machine], _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_TSYNC, whole) == 0


_Step = tuple[int, int, int, int]


def _filter(machine: str, pid: int) -> list[_Step]:
    """A BPF program that returns an error for denied calls and allows the rest."""

    def refuse(error: int) -> _Step:
        return (_RETURN, 0, 0, _RET_ERRNO | error)

    steps: list[_Step] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        refuse(_EPERM),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if machine == "x86_64":
        steps += [(_AT_LEAST, 0, 1, _X32_BIT), refuse(_ENOSYS)]

    def number(name: str) -> int | None:
        return NUMBERS[name][0 if machine == "x86_64" else 1]

    # A call whose argument decides: the filter loads the argument (its low 32 bits) and decides at once.
    write = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    by_argument = [
        ("open", 1, _ANY_BIT, write, False),
        ("openat", 2, _ANY_BIT, write, False),
        ("clone", 0, _ANY_BIT, _CLONE_THREAD, True),
        ("tgkill", 0, _EQUAL, pid, True),
        ("prlimit64", 0, _EQUAL, 0, True),
    ]
    for name, argument, test, operand, allows in by_argument:
        call = number(name)
        if call is None:
            continue
        allow, deny = (_RETURN, 0, 0, _RET_ALLOW), refuse(_EPERM)
        steps += [
            (_EQUAL, 0, 4, call),
            (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument),
            (test, 0, 1, operand),
            allow if allows else deny,
            deny if allows else allow,
        ]
    for name in NUMBERS:
        call = number(name)
        if call is not None and name not in {each[0] for each in by_argument}:
            # glibc falls back to `clone` and `openat` where these do not exist.
            steps += [(_EQUAL, 0, 1, call), refuse(_ENOSYS if name in REPORTED_MISSING else _EPERM)]
    return [*steps, (_RETURN, 0, 0, _RET_ALLOW)]


def limit_resources(*, memory: int | None, cpu_seconds: float | None, file_bytes: int = 0) -> None:
    """Limit this process: no core dump, no file larger than `file_bytes`, and its memory and CPU time from now on.

    Args:
        memory: bytes of private memory that may be added, by RLIMIT_DATA. None keeps the current limit. macOS does not enforce it.
        cpu_seconds: CPU time of all threads that may be added; the kernel then ends the process. None for no limit.
    """
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, file_bytes)
    if memory is not None:
        _set_soft(resource.RLIMIT_DATA, private_memory() + memory)
    if cpu_seconds is None:
        _set_soft(resource.RLIMIT_CPU, None)
    else:
        used = resource.getrusage(resource.RUSAGE_SELF)
        _set_soft(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + cpu_seconds) + 1)


def private_memory() -> int:
    """Bytes of private writable memory of this process, as RLIMIT_DATA counts them; 0 where the system does not report it."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmData:")), 0)


def _lower(limit: int, value: int) -> None:
    _, hard = resource.getrlimit(limit)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(limit, (value, value))


def _set_soft(limit: int, value: int | None) -> None:
    _, hard = resource.getrlimit(limit)
    if value is None or (hard != resource.RLIM_INFINITY and value > hard):
        value = hard
    resource.setrlimit(limit, (value, hard))


def gpu_devices() -> list[Path]:
    """The device files of NVIDIA GPUs."""
    return sorted(Path("/dev").glob("nvidia*"))


def paths_of_libraries() -> list[Path]:
    """The files and folders that the interpreter, its packages and the system libraries are read from."""
    paths = [*_SYSTEM_FOLDERS, *_DEVICES, *sys.path]
    paths += [sys.prefix, sys.base_prefix, sys.exec_prefix, str(Path(sys.executable).resolve().parent)]
    paths += [folder for name in ("LD_LIBRARY_PATH", "PYTHONPATH") for folder in os.environ.get(name, "").split(":")]
    for finder in sys.meta_path:
        # Editable installs of setuptools: the finder's module maps packages to folders.
        found = getattr(sys.modules.get(getattr(finder, "__module__", "")), "MAPPING", None)
        if isinstance(found, dict):
            paths += [str(folder) for folder in found.values()]
    return [Path(path) for path in dict.fromkeys(paths) if path and path != "/"]
