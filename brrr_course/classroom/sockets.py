"""A cluster of dask's that listens on no port: its processes meet at sockets in a folder that is their owner's alone.

A port of this machine is open to all of its accounts, and a connection that says nothing costs whoever accepts it a
file, with or without certificates. dask's addresses are `brrr://127.0.0.1:NUMBER` here, each a file of that number.
"""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask
from distributed import Scheduler, Worker
from distributed.comm.addressing import parse_host_port
from distributed.comm.core import CommClosedError
from distributed.comm.registry import backends
from distributed.comm.tcp import (
    MAX_BUFFER_SIZE,
    TCP,
    TCPBackend,
    TCPConnector,
    TCPListener,
    convert_stream_closed_error,
)
from tornado.iostream import IOStream, StreamClosedError
from tornado.netutil import bind_unix_socket
from tornado.tcpserver import TCPServer

PROTOCOL, HOST = "brrr", "127.0.0.1"
FOLDER = "brrr-sockets"
"""dask's setting that names the folder; workers have it from their nanny."""


def _path(address: str) -> str:
    return str(Path(dask.config.get(FOLDER), str(parse_host_port(address)[1])))


class _Stream(TCP):
    """dask's messages over a socket of this machine, where TCP's own settings mean nothing."""

    def __init__(self, stream: Any, peer: str, deserialize: bool = True) -> None:
        stream.closed = lambda: True  # dask sets no option of TCP's on what is closed
        super().__init__(stream, f"{PROTOCOL}://{HOST}:0", peer, deserialize)
        del stream.closed


class _Connector(TCPConnector):
    async def connect(self, address: str, deserialize: bool = True, **_: object) -> _Stream:
        stream = IOStream(socket.socket(socket.AF_UNIX), max_buffer_size=int(MAX_BUFFER_SIZE))
        try:
            await stream.connect(_path(address))
        except StreamClosedError as error:
            convert_stream_closed_error(self, error)
        return _Stream(stream, f"{PROTOCOL}://{address}", deserialize)


class _Listener(TCPListener):
    prefix = f"{PROTOCOL}://"

    async def start(self) -> None:
        self.bound_address = (HOST, self.port or 1 + secrets.randbelow(2**31))
        server: Any = TCPServer(max_buffer_size=int(MAX_BUFFER_SIZE))
        server.handle_stream, self.tcp_server = self._handle_stream, server
        server.add_socket(bind_unix_socket(_path("{}:{}".format(*self.bound_address)), mode=0o600))

    async def _handle_stream(self, stream: IOStream, address: object) -> None:
        comm = _Stream(stream, f"{self.prefix}{HOST}:0", self.deserialize)
        comm.allow_offload = self.allow_offload
        with suppress(CommClosedError):  # it was killed
            await self.on_connection(comm)
            await self.comm_handler(comm)


class _Backend(TCPBackend):
    _connector_class, _listener_class = _Connector, _Listener


backends[PROTOCOL] = _Backend()


class Silent:
    """What of dask's would serve pages on a port, and does not."""

    def start_http_server(self, *_: object, **__: object) -> None:
        """Nothing is served."""


class SilentScheduler(Silent, Scheduler):
    """A scheduler without pages."""


class SilentWorker(Silent, Worker):
    """A worker without pages."""
