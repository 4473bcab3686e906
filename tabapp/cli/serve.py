"""The command `serve`."""

from __future__ import annotations

from pathlib import Path

import click

from tabapp.cli.completion import bundles as complete_bundles
from tabapp.cli.options import Whole, device_option, read_budget, read_bytes, trust_option
from tabapp.errors import UsageError
from tabapp.headless.narration import echo, say
from tabapp.run.bounds import PORT, Bounds

_POSITIVE = Bounds(1)
_PACKAGES = ("starlette", "uvicorn", "prometheus_client", "h11", "anyio")


@click.command()
@click.argument("bundles", metavar="[NAME=]BUNDLE…", nargs=-1, required=True, shell_complete=complete_bundles)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option(
    "--port", type=Whole(PORT), default=8000, show_default=True, metavar="N", help="Port, or 0 for any that is free."
)
@click.option(
    "--token",
    envvar="TABAPP_SERVE_TOKEN",
    show_envvar=True,
    metavar="TEXT",
    help="Secret that requests must contain; required if other machines can reach ADDRESS.",
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="Further name that the Host header may contain, such as that of a proxy. Can be repeated.",
)
@click.option(
    "--workers", type=Whole(_POSITIVE), default=1, show_default=True, metavar="N", help="Model processes per bundle."
)
@click.option(
    "--concurrency",
    type=Whole(_POSITIVE),
    default=64,
    show_default=True,
    metavar="N",
    help="Maximum number of predictions in progress or waiting.",
)
@click.option(
    "--max-rows",
    type=Whole(_POSITIVE),
    default=10_000,
    show_default=True,
    metavar="N",
    help="Maximum rows of a request.",
)
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


def _report(address: str) -> None:
    echo(address)
    say("Requests are accepted. Open the address to try a row in a browser. Ctrl+C stops the server.")
