"""The command `serve`."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from tabapp.cli.completion import bundles as complete_bundles
from tabapp.cli.options import device_option, read_budget, read_bytes, trust_option, whole_option
from tabapp.errors import UsageError
from tabapp.headless.narration import echo, say

_LONGEST_TOKEN = 4_096
_PACKAGES = ("starlette", "uvicorn", "prometheus_client", "h11", "anyio")


@click.command()
@click.argument("bundles", metavar="[NAME=]BUNDLE…", nargs=-1, required=True, shell_complete=complete_bundles)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@whole_option("port", 8000, "Port, or 0 for any that is free.", 0, 65535)
@click.option(
    "--token",
    envvar="TABAPP_SERVE_TOKEN",
    show_envvar=True,
    metavar="TEXT",
    help=(
        "Secret that requests must contain; required if other machines can reach ADDRESS. Other users of this machine can read "
        "it in the list of processes: use the variable or --token-file instead."
    ),
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File whose first line is the token.",
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="Further name that the Host header may contain, such as that of a proxy. Can be repeated.",
)
@whole_option("workers", 1, "Model processes per bundle.")
@whole_option("concurrency", 64, "Maximum number of predictions in progress or waiting.")
@whole_option("max-rows", 10_000, "Maximum rows of a request.")
@click.option(
    "--max-body",
    callback=read_bytes,
    default="16MiB",
    show_default=True,
    metavar="SIZE",
    help="Maximum size of a request.",
)
@click.option(
    "--max-memory",
    callback=read_bytes,
    default="1GiB",
    show_default=True,
    metavar="SIZE",
    help="Memory that reading one request may use.",
)
@click.option(
    "--timeout",
    callback=read_budget,
    default="30s",
    show_default=True,
    metavar="TIME",
    help="Time for a client to send a request, and for its prediction.",
)
@click.option("-v", "--verbose", is_flag=True, help="Print a line for each request on stderr.")
@device_option
@trust_option
def serve(
    bundles: tuple[str, ...],
    host: str,
    port: int,
    token: str | None,
    token_file: Path | None,
    allowed_hosts: tuple[str, ...],
    workers: int,
    concurrency: int,
    max_rows: int,
    max_body: int,
    max_memory: int,
    timeout: float,
    verbose: bool,
    device: str,
    trust: Path | None,
) -> int:
    """Predict over HTTP with one or more bundles, until Ctrl+C or SIGTERM.

    The first bundle answers /predict and /schema, and each bundle answers /bundles/NAME/predict, where NAME is the file name
    without its suffix. A file that is replaced is loaded again. Each target of a bundle with several is a bundle NAME.TARGET.
    """
    try:
        from tabapp.serve import limits, server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise UsageError(
            f"serve needs the package {error.name}. Install it with `pip install 'tabapp[serve]'`."
        ) from None
    paths = server.names_of_bundles(bundles)
    if token_file is not None:
        if click.get_current_context().get_parameter_source("token") is ParameterSource.COMMANDLINE:
            raise UsageError("--token and --token-file exclude each other. Use one of them.")
        token = _token_in(token_file)
    accepted = limits.Limits(
        max_body=max_body,
        max_rows=max_rows,
        max_memory=max_memory,
        concurrency=concurrency,
        connections=max(8 * concurrency, 64),
        seconds=timeout,
        workers=workers,
    )
    with server.listening_socket(host, port) as listening:
        access = server.access_to(listening, token, allowed_hosts)
        server.serve(
            paths,
            listening,
            access,
            accepted,
            trust=trust,
            device=device,
            log=say,
            log_request=(lambda line: echo(line, err=True)) if verbose else None,
            on_start=_report,
        )
    return 0


def _token_in(path: Path) -> str:
    """The first line of a file, which may be a pipe.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_LONGEST_TOKEN + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise UsageError(f"--token-file {path} cannot be read ({reason}). Check its path.") from None
    line = content.partition(b"\n")[0]
    if len(line) > _LONGEST_TOKEN:
        raise UsageError(f"--token-file {path} has more than {_LONGEST_TOKEN:,} characters in its first line.")
    return line.decode("utf-8", "replace").removesuffix("\r")


def _report(address: str) -> None:
    echo(address)
    say("Requests are accepted. Open the address to try a row in a browser. Ctrl+C stops the server.")
