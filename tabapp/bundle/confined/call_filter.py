"""The seccomp filter of a process that loads a bundle: a BPF program that allows a list of system calls and denies all others.

See https://docs.kernel.org/userspace-api/seccomp_filter.html. Constants are those of `linux/seccomp.h`, `linux/filter.h`,
`linux/bpf_common.h` and `linux/audit.h`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from itertools import groupby

from tabapp.bundle.confined.system_calls import (
    ALLOWED,
    FOR_A_GPU,
    OPTIONAL_FROM,
    Condition,
    LimitedCall,
    limited_calls,
)

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""The architectures that the filter knows, as seccomp names them."""

Step = tuple[int, int, int, int]
"""An instruction of the program: its code, the jumps if true and if false, and its operand."""

LOAD, EQUAL, AT_LEAST, AND, RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
RET_ALLOW, RET_ERRNO = 0x7FFF0000, 0x00050000
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16
_X32_BIT = 0x40000000
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER, _FLAG_TSYNC = 1, 1
_PR_SET_NO_NEW_PRIVS = 38
_WHOLE_WORD = 0xFFFFFFFF

_ALLOW: Step = (RETURN, 0, 0, RET_ALLOW)


def restrict_calls(*, for_gpu: bool = False) -> bool:
    """Deny every system call that is not needed to load models and to predict, by seccomp.

    It applies to every thread, those that run already included. Threads can still be created, and files opened for reading.

    Args:
        for_gpu: allow the calls of the libraries of a GPU too.

    Returns:
        Whether the kernel enforces it.
    """
    machine = platform.machine()
    if sys.platform != "linux" or machine not in MACHINES:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    program = b"".join(struct.pack("<HBBI", *step) for step in program_for(machine, os.getpid(), for_gpu=for_gpu))
    content = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: the number of steps, and a pointer to them.
    whole = struct.pack("@HP", len(program) // 8, ctypes.addressof(content))
    return libc.syscall(_SECCOMP[machine], _SET_MODE_FILTER, _FLAG_TSYNC, whole) == 0


def program_for(machine: str, pid: int, *, for_gpu: bool = False) -> list[Step]:
    """The filter of a process: a denied call is an error, which libraries handle, and does not end the process.

    Args:
        machine: the architecture, one of `MACHINES`.
        pid: the id of the process.
        for_gpu: as for `restrict_calls`.
    """
    column = list(MACHINES).index(machine)
    steps: list[Step] = [
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (EQUAL, 1, 0, MACHINES[machine]),
        _error(errno.EPERM),
        (LOAD, 0, 0, NUMBER_AT),
    ]
    if machine == "x86_64":
        steps += [(AT_LEAST, 0, 1, _X32_BIT), _error(errno.ENOSYS)]
    allowed = {**ALLOWED, **FOR_A_GPU} if for_gpu else ALLOWED
    for numbers in allowed.values():
        number = numbers[column]
        if number is not None:
            steps += [(EQUAL, 0, 1, number), _ALLOW]
    for number, calls in groupby(limited_calls(pid, for_gpu=for_gpu), lambda call: call.numbers[column]):
        if number is not None:
            decision = [step for call in calls for step in _conditions(call)] + [_error(errno.EPERM)]
            steps += [(EQUAL, 0, len(decision), number), *decision]
    return [*steps, (AT_LEAST, 0, 1, OPTIONAL_FROM), _error(errno.ENOSYS), _error(errno.EPERM)]


def _error(number: int) -> Step:
    return (RETURN, 0, 0, RET_ERRNO | number)


def _conditions(call: LimitedCall) -> list[Step]:
    """Steps that allow the call if all its conditions hold, and otherwise continue after them."""
    steps: list[Step] = [_ALLOW]
    for condition in reversed(call.conditions):
        steps = [*_condition(condition, len(steps)), *steps]
    return steps


def _condition(condition: Condition, n_rest: int) -> list[Step]:
    """Steps that continue if the condition holds, and otherwise skip the rest of the call."""
    at = ARGUMENTS_AT + 8 * condition.argument + (4 if condition.high else 0)
    steps: list[Step] = [(LOAD, 0, 0, at)]
    if condition.mask != _WHOLE_WORD:
        steps.append((AND, 0, 0, condition.mask))
    n_values = len(condition.values)
    for position, value in enumerate(condition.values, start=1):
        is_last = position == n_values
        steps.append((EQUAL, n_values - position, n_rest if is_last else 0, value))
    return steps
