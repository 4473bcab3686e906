"""A connection to a Ray cluster: its nodes, and the check that they share the run folder (optional extra `tabapp[ray]`)."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import threading
from collections.abc import Generator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import tabapp
from tabapp import files
from tabapp.engine.machine.capacity import Machines
from tabapp.engine.remote import ray_tasks
from tabapp.errors import UsageError, option

CHECK_SECONDS = 60.0
CONNECT_SECONDS = 10.0
NO_CLUSTER = "There is no Ray cluster at {address} ({reason}). Start one with `ray start --head`, or check {option}."
REFUSED = (
    "No Ray cluster at {address} accepts this machine ({reason}). Check {option}, and set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN "
    "or RAY_AUTH_TOKEN_PATH as on the machines of the cluster."
)
MODE, TOKEN, TOKEN_FILE = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
TOKEN_BYTES = 32


@dataclass(frozen=True)
class Node:
    """A node of the cluster, with the resources that Ray has for it."""

    id: str
    name: str
    cpus: int
    gpus: int
    memory: int


@contextmanager
def _own_signal_handlers() -> Generator[None]:
    """Keep the signal handlers of the engine, which Ray replaces."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in kept.items():
                signal.signal(number, handler)


def prepare_token(environment: MutableMapping[str, str], *, is_own: bool) -> None:
    """Let the connection to a cluster be authenticated, unless the user chooses otherwise with RAY_AUTH_MODE. Ray reads these
    variables when it is imported.

    Args:
        environment: of this process; a cluster of its own gets a new token, which no file contains, and Ray then turns
            authentication on by itself.
    """
    if is_own:
        if environment.get(MODE, "token") == "token" and not {TOKEN, TOKEN_FILE} & set(environment):
            environment[TOKEN] = secrets.token_hex(TOKEN_BYTES)
    elif {TOKEN, TOKEN_FILE} & set(environment):
        environment.setdefault(MODE, "token")


class Cluster:
    """A connection to a Ray cluster, which ends with `close`.

    Args:
        address: of the cluster; None means that of the variable RAY_ADDRESS, or else a cluster of this machine's own.
        cores: processor cores of a cluster of its own.

    Raises:
        UsageError: the package ray is not installed, there is no cluster at the address, or it does not accept the token.
    """

    def __init__(self, address: str | None, cores: int) -> None:
        # A cluster of one's own sends no statistics.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self.address = address or os.environ.get("RAY_ADDRESS") or "local"
        prepare_token(os.environ, is_own=self.address == "local")
        try:
            ray: Any = import_module("ray")
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "ray":
                raise
            raise UsageError(
                f"{option('executor', 'ray')} needs the package ray. Install it with `pip install 'tabapp[ray]'`."
            ) from None
        self.ray = ray
        failure = REFUSED if self._listens() else NO_CLUSTER
        own: dict[str, Any] = {"num_cpus": cores, "include_dashboard": False} if self.address == "local" else {}
        try:
            with _own_signal_handlers():
                ray.init(
                    address=self.address, namespace="tabapp", log_to_driver=False, logging_level=logging.ERROR, **own
                )
        except (ConnectionError, ValueError, RuntimeError, OSError, ray.exceptions.RayError) as error:
            first = (str(error).splitlines() or [""])[0].partition(". ")[0][:160]
            raise UsageError(failure.format(address=self.address, reason=first, option=option("address"))) from None

    def _listens(self) -> bool:
        """Whether something listens at the address of a host; False if it is not one.

        Raises:
            UsageError: nothing listens there, for which Ray would wait for minutes.
        """
        host, colon, port = self.address.removeprefix("ray://").rpartition(":")
        if not colon or not port.isdigit():
            return False
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
        except OSError as error:
            reason = error.strerror or error
            raise UsageError(NO_CLUSTER.format(address=self.address, reason=reason, option=option("address"))) from None
        return True

    def nodes(self) -> list[Node]:
        """The nodes that are alive."""
        found: list[Node] = []
        for node in self.ray.nodes():
            if node["Alive"]:
                resources: dict[str, float] = node["Resources"]
                found.append(
                    Node(
                        id=node["NodeID"],
                        name=node["NodeManagerHostname"],
                        cpus=int(resources.get("CPU", 0)),
                        gpus=int(resources.get("GPU", 0)),
                        memory=int(resources.get("memory", 0)),
                    )
                )
        return found

    def machines(self) -> Machines:
        """The resources of all nodes and of the largest one."""
        nodes = self.nodes()
        return Machines(
            cores=max(1, sum(node.cpus for node in nodes)),
            gpus=sum(node.gpus for node in nodes),
            largest_cores=max((node.cpus for node in nodes), default=1),
            largest_memory=max((node.memory for node in nodes), default=0),
        )

    def check_shared(self, folder: Path) -> None:
        """Check that every node reads what this machine writes to the run folder, with the same version of tabapp.

        Raises:
            UsageError: a node does not, and why.
        """
        strategies: Any = import_module("ray.util.scheduling_strategies")
        token = secrets.token_hex(16)
        path = folder / f".shared-{token}"
        files.write_text(path, token)
        task = self.ray.remote(num_cpus=0, max_retries=0)(ray_tasks.read_back)
        try:
            for node in self.nodes():
                strategy = strategies.NodeAffinitySchedulingStrategy(node.id, soft=False)
                reply = task.options(scheduling_strategy=strategy).remote(str(path))
                try:
                    content, version = self.ray.get(reply, timeout=CHECK_SECONDS)
                except Exception as error:
                    first = (str(error).strip().splitlines() or [type(error).__name__])[-1][:160]
                    raise UsageError(
                        f"The node {node.name} cannot run tabapp ({first}). Install tabapp on every node."
                    ) from None
                if content != token:
                    raise UsageError(
                        f"The node {node.name} does not see the run folder {folder} ({content[:80]}). "
                        f"Choose a {option('runs_dir')} on storage that every node has under the same path."
                    )
                if version != tabapp.__version__:
                    raise UsageError(
                        f"The node {node.name} has tabapp {version} and this machine {tabapp.__version__}. "
                        "Install the same version."
                    )
        finally:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Disconnect, which ends the fits in progress; a cluster of one's own ends."""
        with _own_signal_handlers():
            self.ray.shutdown()
