"""Restricts the current process before it reads a file that may be malicious: its files, memory and processor time.

Linux offers Landlock (https://docs.kernel.org/userspace-api/landlock.html) for files, and seccomp, see `call_filter`; other systems
offer resource limits only. Constants are those of the kernel headers `linux/landlock.h` and `linux/prctl.h`.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

NO_PACKAGES = 69
"""Exit code of a process that cannot import its packages once it is restricted."""
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

_SYSTEM = (
    "/usr", "/lib", "/lib64", "/lib32", "/nix/store", "/gnu/store",
    "/etc/ld.so.cache", "/etc/localtime", "/etc/timezone", "/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf",
    "/etc/crypto-policies", "/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
    "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/vm/overcommit_memory",
    "/dev/null", "/dev/urandom", "/dev/random",
)  # fmt: skip
"""What the libraries read, and no folder with facts about other programs or users."""
_MODULES = (".py", ".so")
_OWN = "/proc/self"
_OWN_FACTS = ("cgroup", "environ", "maps", "mountinfo", "mounts", "stat", "statm", "status")
_SYSTEM_OF_A_GPU = ("/sys", "/proc/driver", "/proc/devices", "/proc/modules", "/proc/self", "/etc/nvidia")

_FILES, _STACK_BYTES = 1024, 64 * 2**20
_TASKS, _TASKS_PER_CPU = 8192, 1024
"""Processes and threads of the user together, as RLIMIT_NPROC counts them."""
_pinned: list[int] = []


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
    if not path.is_dir():
        rights &= ~_READ_DIR
    rule = struct.pack("<Qi", rights, descriptor)
    libc.syscall(_LANDLOCK_ADD_RULE, rules, _LANDLOCK_RULE_PATH_BENEATH, rule, 0)
    if path.is_relative_to(_OWN):
        # The kernel may forget an entry that nobody has open, and a rule does not apply to the entry that replaces it.
        _pinned.append(descriptor)
    else:
        os.close(descriptor)


def limit_resources(*, memory: int | None, cpu_seconds: float | None, file_bytes: int = 0) -> None:
    """Limit this process: no core dump, no file larger than `file_bytes`, few open files and tasks, and its memory and processor
    time from now on.

    Memory and time are soft limits, which the program that started this process changes for each request. The process itself cannot
    raise them once `restrict_calls` is in force.

    Args:
        memory: bytes of private memory that may be added, by RLIMIT_DATA. None keeps the current limit. macOS does not enforce it.
        cpu_seconds: CPU time of all threads that may be added; the kernel then ends the process. None for no limit.
    """
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, file_bytes)
    _lower(resource.RLIMIT_NOFILE, _FILES)
    _lower(resource.RLIMIT_STACK, _STACK_BYTES)
    _lower(resource.RLIMIT_NPROC, _TASKS + _TASKS_PER_CPU * (os.cpu_count() or 1))
    if memory is not None:
        _set_soft(resource.RLIMIT_DATA, private_memory() + memory)
    if cpu_seconds is None:
        _set_soft(resource.RLIMIT_CPU, None)
    else:
        used = resource.getrusage(resource.RUSAGE_SELF)
        _set_soft(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + cpu_seconds) + 1)


def limit_child(pid: int, *, memory: int, cpu_seconds: float) -> bool:
    """Set the memory and the processor time that a child may use from its start on; only Linux offers it.

    Args:
        pid: the child, which is idle.
        memory: bytes of private memory that may be added to what it has now.
        cpu_seconds: CPU time in all, that used so far included.

    Returns:
        Whether the system enforces them.
    """
    if sys.platform != "linux":
        return False
    try:
        for limit, value in (
            (resource.RLIMIT_DATA, private_memory(pid) + memory),
            (resource.RLIMIT_CPU, int(cpu_seconds) + 1),
        ):
            _, hard = resource.prlimit(pid, limit)
            resource.prlimit(pid, limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
    except OSError:
        return False
    return True


def private_memory(pid: int | None = None) -> int:
    """Bytes of private writable memory of a process, by default this one, as RLIMIT_DATA counts them; 0 where the system does not
    report it."""
    try:
        status = Path(f"/proc/{pid or 'self'}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmData:")), 0)


def _lower(limit: int, value: int) -> None:
    """Set the soft and the hard limit to a value, unless one of them is lower."""
    lowest = min(each for each in (value, *resource.getrlimit(limit)) if each != resource.RLIM_INFINITY)
    resource.setrlimit(limit, (lowest, lowest))


def _set_soft(limit: int, value: int | None) -> None:
    _, hard = resource.getrlimit(limit)
    if value is None or (hard != resource.RLIM_INFINITY and value > hard):
        value = hard
    resource.setrlimit(limit, (value, hard))


def gpu_devices() -> list[Path]:
    """The device files of NVIDIA GPUs."""
    return sorted(Path("/dev").glob("nvidia*"))


def paths_of_libraries(*, for_gpu: bool = False) -> list[Path]:
    """The files and folders that the interpreter, its packages and the system libraries read.

    Args:
        for_gpu: add those of the libraries of a GPU.
    """
    paths = [*_SYSTEM, *(f"{_OWN}/{name}" for name in _OWN_FACTS), *(_SYSTEM_OF_A_GPU if for_gpu else ()), *sys.path]
    paths += [sys.prefix, sys.base_prefix, sys.exec_prefix, str(Path(sys.executable).resolve().parent)]
    paths += [folder for name in ("LD_LIBRARY_PATH", "PYTHONPATH") for folder in os.environ.get(name, "").split(":")]
    for finder in sys.meta_path:
        # Editable installs of setuptools: the finder's module maps packages to folders.
        found = getattr(sys.modules.get(getattr(finder, "__module__", "")), "MAPPING", None)
        if isinstance(found, dict):
            paths += [str(folder) for folder in found.values()]
    paths += [target for folder in sys.path if folder for target in _linked_packages(folder)]
    return [Path(path) for path in dict.fromkeys(paths) if path and path != "/"]


def _linked_packages(folder: str) -> Iterator[str]:
    """Where packages of a folder of `sys.path` are that are symbolic links, or whose files are, as some installers make them."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                target = os.path.realpath(entry.path)
                if target.endswith(_MODULES) or os.path.exists(os.path.join(target, "__init__.py")):
                    yield target
                continue
            files = os.listdir(entry.path) if entry.name.endswith(".libs") else ["__init__.py"]
            links = (os.path.join(entry.path, name) for name in files)
            yield from (os.path.dirname(os.path.realpath(link)) for link in links if os.path.islink(link))
