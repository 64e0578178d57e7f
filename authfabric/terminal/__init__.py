"""How commands speak: terminal output, options and passphrases."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from authfabric.terminal.markup import escape
    from authfabric.terminal.option_types import with_option_types
    from authfabric.terminal.options import (
        HealthAddress,
        HealthOptions,
        ListenOptions,
        OutFile,
        SignerKey,
        address_of,
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
    "START", "Exit", "HealthAddress", "HealthOptions", "Json", "ListenOptions",
    "OutFile", "SignerKey", "Url", "address_of", "command_line", "counted", "err", "escape", "fail",
    "option_seconds", "out", "print_json", "printable", "program", "run", "say", "say_table", "seconds_of",
    "waiting", "warn", "with_option_types",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".markup": "escape",
        ".option_types": "with_option_types",
        ".options": "HealthAddress HealthOptions ListenOptions OutFile SignerKey address_of"
        " option_seconds seconds_of",
        ".output": "Exit Json START Url command_line counted err fail out"
        " print_json printable program run say say_table waiting warn",
    },
)
