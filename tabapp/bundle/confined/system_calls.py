"""System calls that a process needs to load models and to predict, measured with all models, and their usual alternatives.

Numbers are from the kernel's tables `arch/x86/entry/syscalls/syscall_64.tbl` and `include/uapi/asm-generic/unistd.h` (AArch64).
Other constants are from its headers, and the same on both.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

OPTIONAL_FROM = 424
"""Calls from this number on were added in Linux 5.1 and later: programs try older ones if they are reported as missing."""

Numbers = dict[str, tuple[int | None, int | None]]
"""By name, on x86-64 and AArch64; None where an architecture lacks the call."""

ALLOWED: Numbers = {
    # The most frequent first, because the kernel compares in this order.
    "futex": (202, 98), "read": (0, 63), "write": (1, 64), "lseek": (8, 62), "sched_yield": (24, 124), "munmap": (11, 215),
    "newfstatat": (262, 79), "close": (3, 57), "mprotect": (10, 226), "brk": (12, 214),
    # Reading files. The arguments of openat, ioctl and fcntl are limited below.
    "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67), "preadv": (295, 69), "fstat": (5, 80), "stat": (4, None),
    "lstat": (6, None), "statx": (332, 291), "statfs": (137, 43), "fstatfs": (138, 44), "access": (21, None),
    "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, None), "readlinkat": (267, 78), "getcwd": (79, 17),
    "getdents": (78, None), "getdents64": (217, 61), "fadvise64": (221, 223),
    # Waiting.
    "poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72), "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21), "epoll_wait": (232, None), "epoll_pwait": (281, 22), "eventfd2": (290, 19),
    "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "restart_syscall": (219, 128),
    # Memory and threads of its own.
    "mremap": (25, 216), "membarrier": (324, 283), "get_mempolicy": (239, 236), "set_robust_list": (273, 99),
    "rseq": (334, 293), "exit": (60, 93), "exit_group": (231, 94), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139), "sigaltstack": (131, 132),
    # Facts.
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153),
    "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178), "getuid": (102, 174), "geteuid": (107, 175),
    "getgid": (104, 176), "getegid": (108, 177), "uname": (63, 160), "sysinfo": (99, 179), "getrusage": (98, 165),
    "getrlimit": (97, 163), "sched_getaffinity": (204, 123), "getcpu": (309, 168), "getrandom": (318, 278),
}  # fmt: skip

FOR_A_GPU: Numbers = {
    "mbind": (237, 235), "set_mempolicy": (238, 237), "mlock": (149, 228), "mlock2": (325, 284), "munlock": (150, 229),
    "mincore": (27, 232), "msync": (26, 227), "pipe2": (293, 59), "dup": (32, 23), "dup3": (292, 24),
}  # fmt: skip
"""More calls of the libraries of a GPU."""


@dataclass(frozen=True)
class Condition:
    """An argument must have one of these values.

    Attributes:
        argument: its position.
        values: those allowed, of the low 32 bits unless `high`.
        mask: bits that are compared.
        high: compare the high 32 bits.
    """

    argument: int
    values: tuple[int, ...]
    mask: int = 0xFFFFFFFF
    high: bool = False


@dataclass(frozen=True)
class LimitedCall:
    """A call with conditions that must all hold; `numbers` as in `Numbers`."""

    name: str
    numbers: tuple[int | None, int | None]
    conditions: tuple[Condition, ...]


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

# Mappings: RLIMIT_DATA counts neither shared anonymous memory nor stacks that grow; huge pages are the system's.
_MAP_SHARED, _MAP_ANONYMOUS, _MAP_GROWSDOWN, _MAP_HUGETLB = 0x1, 0x20, 0x100, 0x40000

# Flags of a thread, as in glibc and musl. The latter adds CLONE_DETACHED, which does nothing.
_THREAD, _CLONE_DETACHED = 0x3D0F00, 0x400000

# No advice that writes into files (MADV_REMOVE), merges pages with other processes, or needs privileges.
_ADVICE = (0, 1, 2, 3, 4, 8, 14, 15, 16, 17, 18, 20, 21, 22, 23, 25)

_F_DUPFD, _F_GETFD, _F_SETFD, _F_GETFL, _F_DUPFD_CLOEXEC = 0, 1, 2, 3, 1030
_TCGETS, _TCGETS2, _TIOCGWINSZ, _FIONREAD, _FIONBIO, _FIONCLEX, _FIOCLEX = (
    0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451,
)  # fmt: skip
_PR_SET_NAME, _PR_GET_NAME, _PR_SET_VMA = 15, 16, 0x53564D41


def limited_calls(pid: int, *, for_gpu: bool = False) -> list[LimitedCall]:
    """Calls of which the arguments decide.

    Args:
        pid: the id of the process, which may send signals to itself only.
        for_gpu: allow every ioctl on the devices of a GPU.
    """
    ioctl = Condition(1, (_TCGETS, _TCGETS2, _TIOCGWINSZ, _FIONREAD, _FIONBIO, _FIONCLEX, _FIOCLEX))
    anonymous = Condition(
        3, (_MAP_ANONYMOUS, _MAP_SHARED, 0), _MAP_SHARED | _MAP_ANONYMOUS | _MAP_GROWSDOWN | _MAP_HUGETLB
    )
    own_limits = (Condition(0, (0,)), Condition(2, (0,)), Condition(2, (0,), high=True))
    calls = [
        LimitedCall("mmap", (9, 222), (anonymous,)),
        LimitedCall("madvise", (28, 233), (Condition(2, _ADVICE),)),
        LimitedCall("open", (2, None), (Condition(1, (0,), _WRITING),)),
        LimitedCall("openat", (257, 56), (Condition(2, (0,), _WRITING),)),
        LimitedCall("clone", (56, 220), (Condition(0, (_THREAD,), 0xFFFFFFFF & ~_CLONE_DETACHED),)),
        LimitedCall("prctl", (157, 167), (Condition(0, (_PR_SET_NAME, _PR_GET_NAME, _PR_SET_VMA)),)),
        LimitedCall("fcntl", (72, 25), (Condition(1, (_F_DUPFD, _F_GETFD, _F_SETFD, _F_GETFL, _F_DUPFD_CLOEXEC)),)),
        LimitedCall("tgkill", (234, 131), (Condition(0, (pid,)),)),
        # Reading its own limits: the pointer to new ones is null.
        LimitedCall("prlimit64", (302, 261), own_limits),
    ]
    # The numbers of NVIDIA's driver have the type F; those of its unified memory are smaller than any other.
    nvidia = [
        LimitedCall("ioctl", (16, 29), (Condition(1, (0x4600,), 0xFF00),)),
        LimitedCall("ioctl", (16, 29), (Condition(1, (0,), 0xFFFFF000),)),
        LimitedCall("ioctl", (16, 29), (Condition(1, (0x30000001, 0x30000002)),)),
    ]
    return [*calls, *(nvidia if for_gpu else ()), LimitedCall("ioctl", (16, 29), (ioctl,))]
