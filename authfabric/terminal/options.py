"""Options that several commands have, and lengths of time as people write them: 90s, 15m, 8h, 30d."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from authfabric.terminal.output import Exit, fail

if TYPE_CHECKING:
    from bus.runtime import HealthTls

HealthPort = Annotated[
    int, typer.Option(help="Port for /healthz, /readyz and /metrics on this machine; 0 takes a free one.")
]
HEALTH_HOST = "127.0.0.1"
"""Where health and metrics are served unless `--health-listen` says otherwise."""
_LISTEN = "Where to serve /healthz, /readyz and /metrics, instead of on this machine alone."
_CERTIFICATE = "The certificate to serve them with, by https."
_KEY = "The key of that certificate."
OutFile = Annotated[Path, typer.Option("--out", help="The file to write.")]
SignerKey = Annotated[Path, typer.Option("--key", help="The key file of whoever signs.")]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(text: str) -> int | None:
    """How many seconds a text stands for; None if it is of another form."""
    found = re.fullmatch(r"([1-9][0-9]{0,8})([smhd])", text)
    return int(found[1]) * _UNITS[found[2]] if found else None


def option_seconds(option: str, text: str) -> int:
    """The seconds that an option such as `--for 30d` gives; anything else ends the command as called wrongly."""
    seconds = seconds_of(text)
    if seconds is None:
        fail(f"{option}: `{text}` must be like 90s, 15m, 8h or 30d", Exit.USAGE)
    return seconds


def address_of(option: str, text: str) -> tuple[str, int]:
    """Host and port that an option gives; anything else ends the command as called wrongly."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        fail(f"`{option} {text}` must be HOST:PORT, such as 127.0.0.1:8181", Exit.USAGE)
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - what `:8181` means


class HealthAddress(NamedTuple):
    """Where health and metrics are served, and with which certificate, if over https."""

    host: str
    port: int
    tls: HealthTls | None = None

    def at(self, port: int) -> str:
        """The address, once it is known which port it is."""
        return f"{'http' if self.tls is None else 'https'}://{self.host}:{port}"


@dataclass(frozen=True, slots=True)
class HealthOptions:
    """Where /healthz, /readyz and /metrics are served."""

    health_port: HealthPort = 0
    health_listen: Annotated[
        str | None, typer.Option("--health-listen", metavar="HOST:PORT", help=_LISTEN)
    ] = None
    health_certificate: Annotated[Path | None, typer.Option("--health-certificate", help=_CERTIFICATE)] = None
    health_key: Annotated[Path | None, typer.Option("--health-key", help=_KEY)] = None

    def address(self) -> HealthAddress:
        """What they say together; ends the command as called wrongly where they do not fit."""
        certificate, key = self.health_certificate, self.health_key
        if (certificate is None) != (key is None):
            fail("https needs `--health-certificate` and `--health-key` together", Exit.USAGE)
        for each in filter(None, (certificate, key)):
            if not each.is_file():
                fail(f"`{each}` is not there: health cannot be served over https", Exit.USAGE)
        here = HEALTH_HOST, self.health_port
        where = here if self.health_listen is None else address_of("--health-listen", self.health_listen)
        if certificate is None or key is None:
            return HealthAddress(*where)
        from bus.runtime import HealthTls

        return HealthAddress(*where, HealthTls(certificate, key))


@dataclass(frozen=True, slots=True)
class ListenOptions(HealthOptions):
    """The same, where nothing else is listened for: `--listen` says so too."""

    health_listen: Annotated[
        str | None, typer.Option("--health-listen", "--listen", metavar="HOST:PORT", help=_LISTEN)
    ] = None
    health_certificate: Annotated[
        Path | None, typer.Option("--health-certificate", "--listen-certificate", help=_CERTIFICATE)
    ] = None
    health_key: Annotated[Path | None, typer.Option("--health-key", "--listen-key", help=_KEY)] = None
