"""Lists what code in the confined process of a bundle can read, call and raise, by trying.

`found(bundle)` loads the bundle in such a process, where this module takes the place of its models. As a script, it prints the
list: `python -P tests/hostile/probe.py BUNDLE`.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LARGE = 3 * 2**30
"""More bytes than the models of a small bundle may use."""
_DENIED = (errno.EPERM, errno.EACCES, errno.ENOSYS)

FOLDERS = ("/etc", "/proc", "/proc/{parent}", "/sys", "/dev", "/home", "/root", "/var", "/tmp", "/run", "/boot", "/opt")
FILES = (
    "/etc/passwd", "/etc/shadow", "/etc/hostname", "/etc/machine-id", "/etc/localtime", "/etc/ld.so.cache",
    "/proc/{parent}/environ", "/proc/{parent}/cmdline", "/proc/{parent}/maps", "/proc/{parent}/status", "/proc/1/cmdline",
    "/proc/net/tcp", "/proc/self/net/tcp", "/proc/self/../{parent}/status", "/proc/self/root/etc/passwd", "/proc/self/status",
    "/proc/self/maps", "/proc/cpuinfo", "/proc/meminfo", "/proc/cmdline", "/proc/keys", "/proc/kallsyms", "/proc/version",
    "/sys/devices/system/cpu/online", "/sys/class/net", "/sys/kernel/notes", "/dev/shm", "/dev/kmsg", "/dev/mem",
)  # fmt: skip

# Numbers on x86-64 and AArch64, of calls that read, change or disturb what is not the process's own.
CALLS: dict[str, tuple[int | None, int | None]] = {
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "accept": (43, 202), "accept4": (288, 242),
    "bind": (49, 200), "listen": (50, 201), "sendto": (44, 206), "sendmsg": (46, 211), "sendmmsg": (307, 269),
    "recvfrom": (45, 207), "recvmsg": (47, 212), "execve": (59, 221), "execveat": (322, 281), "clone3": (435, 435),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "process_madvise": (440, 440),
    "process_mrelease": (448, 448), "kcmp": (312, 272), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118), "sched_setattr": (314, 274), "migrate_pages": (256, 238), "move_pages": (279, 239),
    "openat2": (437, 437), "creat": (85, None), "truncate": (76, 45), "ftruncate": (77, 46), "fallocate": (285, 47),
    "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276), "mkdir": (83, None), "mkdirat": (258, 34),
    "rmdir": (84, None), "unlink": (87, None), "unlinkat": (263, 35), "link": (86, None), "linkat": (265, 37),
    "symlink": (88, None), "symlinkat": (266, 36), "mknod": (133, None), "mknodat": (259, 33), "chmod": (90, None),
    "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None), "fchown": (93, 55),
    "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None), "futimesat": (261, None),
    "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16), "setxattrat": (463, 463), "removexattrat": (466, 466),
    "file_setattr": (469, 469), "flock": (73, 32), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "copy_file_range": (326, 285), "sendfile": (40, 71), "splice": (275, 76), "tee": (276, 77), "vmsplice": (278, 75),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "shmat": (30, 196), "semget": (64, 190),
    "msgget": (68, 186), "mq_open": (240, 180), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "inotify_init1": (294, 26), "fanotify_init": (300, 262), "fanotify_mark": (301, 263), "io_setup": (206, 0),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "userfaultfd": (323, 282),
    "bpf": (321, 280), "perf_event_open": (298, 241), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "unshare": (272, 97), "setns": (308, 268), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "move_mount": (429, 429), "open_tree": (428, 428),
    "open_tree_attr": (467, 467), "mount_setattr": (442, 442), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "sethostname": (170, 161), "setdomainname": (171, 162), "acct": (163, 89), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171), "syslog": (103, 116),
    "personality": (135, 92), "modify_ldt": (154, None), "ioperm": (173, None), "iopl": (172, None), "capset": (126, 91),
    "setuid": (105, 146), "setgid": (106, 144), "setresuid": (117, 147), "setgroups": (116, 159), "setsid": (112, 157),
    "setrlimit": (160, 164), "timer_create": (222, 107), "mlock": (149, 228), "mlockall": (151, 230), "seccomp": (317, 277),
    "landlock_create_ruleset": (444, 444),
}  # fmt: skip
_ARGUMENTS: dict[str, tuple[int, ...]] = {
    # Those for which -1 means something: without effect where the call is allowed.
    "personality": (0xFFFFFFFF,),
    "unshare": (0,),
    "syslog": (10,),
    "modify_ldt": (0, 0, 0),
    "setsid": (),
    "sched_setaffinity": (2**31 - 1, 8, 0),
    "setpriority": (9, 0, 0),
}


def _call(name: str) -> None:
    number = CALLS[name][0 if platform.machine() == "x86_64" else 1]
    if number is None:
        raise PermissionError
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (_ARGUMENTS.get(name, (-1,) * 6) + (0,) * 6)[:6]
    if libc.syscall(number, *(ctypes.c_long(argument) for argument in arguments)) < 0:
        raise OSError(ctypes.get_errno(), "")


def _fcntl(command: int, argument: int) -> None:
    import fcntl

    fcntl.fcntl(0, command, argument)


def _ioctl(command: int) -> None:
    import fcntl

    with open(sys.executable, "rb") as file:
        fcntl.ioctl(file, command, bytes(64))


def _map(flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    size = ctypes.c_size_t(LARGE)
    address = libc.mmap(None, size, 3, flags, -1, ctypes.c_long(0))
    if address == ctypes.c_void_p(-1).value:
        raise MemoryError
    libc.munmap(ctypes.c_void_p(address), size)


def _prctl(option: int, argument: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "")


def _raise_limit(limit: int) -> None:
    import resource

    soft, hard = resource.getrlimit(limit)
    if soft == hard:
        raise PermissionError
    resource.setrlimit(limit, (hard, hard))


def _with_arguments(parent: int) -> dict[str, Callable[[], object]]:
    """Calls that the process needs, with arguments that it does not."""
    private, shared, anonymous, grows = 2, 1, 32, 256
    return {
        "fork": os.fork,
        "kill the program": lambda: os.kill(parent, 0),
        "fcntl F_SETOWN": lambda: _fcntl(8, parent),
        "fcntl F_SETSIG": lambda: _fcntl(10, 0),
        "fcntl F_SETOWN_EX": lambda: _fcntl(15, 0),
        "fcntl F_SETLEASE": lambda: _fcntl(1024, 2),
        "fcntl F_NOTIFY": lambda: _fcntl(1026, 0),
        "fcntl F_SETPIPE_SZ": lambda: _fcntl(1031, 4096),
        "fcntl F_ADD_SEALS": lambda: _fcntl(1033, 0),
        "ioctl FS_IOC_SETFLAGS": lambda: _ioctl(0x40086602),
        "ioctl FS_IOC_FSSETXATTR": lambda: _ioctl(0x401C5820),
        "ioctl FICLONE": lambda: _ioctl(0x40049409),
        "ioctl TIOCSTI": lambda: _ioctl(0x5412),
        "prctl PR_SET_PTRACER": lambda: _prctl(0x59616D61, 0),
        "prctl PR_SET_DUMPABLE": lambda: _prctl(4, 1),
        "open for writing": lambda: os.close(os.open("/dev/null", os.O_WRONLY)),
        "shared memory beyond the limit": lambda: _map(shared | anonymous),
        "private memory beyond the limit": lambda: _map(private | anonymous),
        "growing memory beyond the limit": lambda: _map(private | anonymous | grows),
    }


def _is_allowed(action: Callable[[], object]) -> bool:
    pid = os.getpid()
    try:
        action()
    except (MemoryError, ValueError):
        # `resource` makes a ValueError of EPERM.
        return False
    except OSError as error:
        return error.errno not in (None, *_DENIED)
    if os.getpid() != pid:
        os._exit(0)
    return True


def _open(path: str) -> None:
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))


def _can_read(path: str) -> bool:
    try:
        _open(path)
    except OSError:
        return False
    return True


def look(secret: str) -> dict[str, Any]:
    """What this process can read, call and raise, by its names; `secret` is a file elsewhere."""
    import resource

    parent = os.getppid()
    folders = [folder.format(parent=parent) for folder in FOLDERS]
    files = {path: path.format(parent=parent) for path in FILES} | {"the bundle": secret}
    limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {
        "lists": [name for name, folder in zip(FOLDERS, folders, strict=True) if _can_read(folder)],
        "reads": [name for name, path in files.items() if _can_read(path)],
        "calls": [name for name in CALLS if _is_allowed(lambda name=name: _call(name))]
        + [name for name, action in _with_arguments(parent).items() if _is_allowed(action)],
        "raises": [name for name in limits if _is_allowed(lambda name=name: _raise_limit(getattr(resource, name)))],
        "variables": sorted(os.environ),
    }


def main(secret: str, arguments: list[str], *, without_landlock: bool = False) -> None:
    """The process of a bundle, in which this list takes the place of loading the models."""
    from tabapp.bundle.confined import box_child as boxed
    from tabapp.bundle.confined import sandbox
    from tabapp.bundle.prediction import local
    from tabapp.errors import BundleError

    def load(*_: object, **__: object) -> None:
        raise BundleError(json.dumps(look(secret)))

    local.load_predictor = load  # pyright: ignore[reportAttributeAccessIssue]
    boxed.MESSAGE_LENGTH = 2**15
    if without_landlock:
        sandbox.restrict_files = lambda *_: False
    boxed.main(arguments)


def found(bundle: Path, *, without_landlock: bool = False) -> dict[str, Any]:
    """What the confined process of this bundle can do. It has no business with the file of the bundle itself."""
    from tabapp.bundle.confined import box_process
    from tabapp.bundle.confined.box import load_boxed
    from tabapp.errors import BundleError

    own_command = box_process.module_command
    program = f"""
import sys
sys.path.append({str(ROOT)!r})
from tests.hostile import probe
probe.main({str(bundle)!r}, sys.argv[1:], without_landlock={without_landlock})
"""
    box_process.module_command = lambda module, *arguments: [sys.executable, "-P", "-c", program, *arguments]
    try:
        load_boxed(bundle)
    except BundleError as error:
        if not str(error).startswith("{"):
            raise
        return json.loads(str(error))
    finally:
        box_process.module_command = own_command
    raise AssertionError("the process of the bundle did not answer")


if __name__ == "__main__":
    sys.path.append(str(ROOT))
    print(json.dumps(found(Path(sys.argv[1])), indent=1))
