"""How commands speak: terminal output, options and passphrases."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from authfabric.terminal.options import (
        HealthAddress,
        HealthCertificate,
        HealthKey,
        HealthListen,
        HealthPort,
        OutFile,
        SignerKey,
        address_of,
        health_address,
        option_seconds,
        seconds_of,
    )
    from authfabric.terminal.output import (
        START,
        Exit,
        Json,
        Url,
        command_line,
        counted,
        err,
        fail,
        out,
        print_json,
        printable,
        program,
        run,
        say,
        say_table,
        waiting,
        warn,
    )

__all__ = [
    "START", "Exit", "HealthAddress", "HealthCertificate", "HealthKey", "HealthListen", "HealthPort", "Json",
    "OutFile", "SignerKey", "Url", "address_of", "command_line", "counted", "err", "fail", "health_address",
    "option_seconds", "out", "print_json", "printable", "program", "run", "say", "say_table", "seconds_of",
    "waiting", "warn",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".options": "HealthAddress HealthCertificate HealthKey HealthListen HealthPort OutFile SignerKey address_of"
        " health_address option_seconds seconds_of",
        ".output": "Exit Json START Url command_line counted err fail out"
        " print_json printable program run say say_table waiting warn",
    },
)
