"""The process that decodes the bodies of requests: `python -m tabapp.serve.decoder FOLDER MEMORY`.

It may read the libraries and its folder, and nothing else. `tabapp.serve.decoding` starts it and trusts nothing that it answers.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tabapp.bundle.confined.call_filter import restrict_calls
from tabapp.bundle.confined.sandbox import limit_resources, paths_of_libraries, private_memory, restrict_files

if TYPE_CHECKING:
    from tabapp.data.schema import Schema
    from tabapp.serve.decoder_messages import Columns, Decode, Refused


def _answer(request: Decode, schema: Schema) -> Columns | Refused:
    from tabapp.serve.bodies import decode_file
    from tabapp.serve.decoder_messages import MESSAGE_LENGTH, Refused, packed
    from tabapp.serve.limits import RequestError

    try:
        return packed(decode_file(Path(request.path), request.kind, schema, request.limits), schema)
    except RequestError as error:
        return Refused(error.status, error.message[:MESSAGE_LENGTH])
    except Exception as error:
        # The process must survive whatever one body causes.
        return Refused(422, f"The body cannot be read ({type(error).__name__}). Send JSON or CSV.")


def _serve(requests: BinaryIO, replies: BinaryIO, memory: int) -> None:
    """Answer requests until their pipe closes.

    Args:
        memory: bytes that decoding may take.
    """
    import msgspec

    from tabapp.serve.decoder_messages import LENGTH_BYTES, Decode, Started, encode

    decoder = msgspec.msgpack.Decoder(Decode)
    schemas: dict[int, Schema] = {}
    most = private_memory() + memory // 2
    replies.write(encode(Started()))
    replies.flush()
    while length := requests.read(LENGTH_BYTES):
        request = decoder.decode(requests.read(int.from_bytes(length, "little")))
        if request.schema is not None:
            schemas[request.bundle] = request.schema
        reply = _answer(request, schemas[request.bundle])
        replies.write(encode(msgspec.structs.replace(reply, is_last=private_memory() > most)))
        replies.flush()


def _warm_up(folder: Path) -> None:
    """Let polars start its threads, which needs calls that are denied afterwards."""
    import polars as pl

    from tabapp.data.reading.columnar import count_rows

    for kind in ("arrow", "parquet"):
        path = folder / f"warm.{kind}"
        frame = pl.DataFrame({"a": [1]})
        frame.write_ipc(path) if kind == "arrow" else frame.write_parquet(path)
        count_rows(path, kind)
        path.unlink()


def _limit_memory(n_bytes: int) -> None:
    """Limit the memory that may be added, for good: only a privileged process raises a hard limit."""
    limit_resources(memory=n_bytes, cpu_seconds=None)
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def main(arguments: list[str]) -> None:
    """Serve requests on stdin and answer on stdout.

    Args:
        arguments: the folder of the bodies, and the bytes of memory that decoding may take.
    """
    folder, memory = Path(arguments[0]), int(arguments[1])
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    # Landlock applies to this thread and those that it starts, so it comes before the imports that start some.
    restrict_files(paths_of_libraries(), [folder])
    _warm_up(folder)
    _limit_memory(memory)
    restrict_calls()
    _serve(requests, replies, memory)


if __name__ == "__main__":
    main(sys.argv[1:])
