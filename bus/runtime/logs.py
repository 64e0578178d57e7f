"""Logs: lines of text for people, or one JSON object a line, of one schema in every process."""

from __future__ import annotations

import enum
import io
import logging
import os
import re
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import TextIO

import msgspec

FORMAT_VARIABLE = "AUTHFABRIC_LOG_FORMAT"
LEVEL_VARIABLE = "AUTHFABRIC_LOG_LEVEL"
TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
SAID = "authfabric.cli"
"""The logger of messages that have no logger of their own."""
_CREDENTIALS = re.compile(r"(?<=://)[^/@,\s]+@")


class LogFormat(enum.StrEnum):
    TEXT = "text"
    JSON = "json"


class LogLevel(enum.StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogLine(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One line of a log: the schema that docs/operations.md describes."""

    time: datetime
    level: str
    logger: str
    """The part of the fabric: `authfabric.pdp`, `authfabric.bus`; or a library."""
    message: str
    process: str
    """The command that runs: `pdp serve`."""
    pid: int
    error: str = ""
    """The traceback of an error that was not foreseen."""


def log_settings(environment: Mapping[str, str]) -> tuple[LogFormat, LogLevel]:
    """What the environment says of logs. Raises ValueError for what is no format or level."""
    form = environment.get(FORMAT_VARIABLE) or LogFormat.TEXT
    level = environment.get(LEVEL_VARIABLE) or LogLevel.WARNING
    for variable, value, kind in ((FORMAT_VARIABLE, form, LogFormat), (LEVEL_VARIABLE, level, LogLevel)):
        if value not in list(kind):
            raise ValueError(f"{variable} is {value!r}: write {', '.join(kind)}")
    return LogFormat(form), LogLevel(level)


def configure_logs(form: LogFormat, level: LogLevel, process: str) -> None:
    """Log in this format from now on; as JSON, so is everything else that goes to the standard error.

    The level is that of the fabric: libraries speak of warnings and errors only.
    """
    root = logging.getLogger()
    if not root.handlers:
        handler = _Handler(sys.stderr)
        handler.setFormatter(TextFormatter(TEXT))
        root.addHandler(handler)
    if level != LogLevel.WARNING:  # which is what loggers begin with
        logging.getLogger("authfabric").setLevel(level.upper())
    if form == LogFormat.JSON:
        for handler in [each for each in root.handlers if isinstance(each, _Handler)]:
            handler.setFormatter(JsonFormatter(process))
            if not isinstance(sys.stderr, LogStream):
                sys.stderr = LogStream(handler)
        logging.captureWarnings(True)
        sys.excepthook = _log_end
        threading.excepthook = _log_thread_end


class _Handler(logging.StreamHandler[TextIO]):
    """Drops what cannot be written, on a full disk: to say so would need the same stream."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        pass


class TextFormatter(logging.Formatter):
    """Each record as lines for people, in which no URL has a user, a password or a token."""

    def format(self, record: logging.LogRecord) -> str:
        return _shown(super().format(record))


class JsonFormatter(logging.Formatter):
    """Each record as one line, in which no URL has a user, a password or a token."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        error = self.formatException(record.exc_info) if record.exc_info else ""
        line = LogLine(
            datetime.fromtimestamp(record.created, UTC),
            record.levelname.lower(),
            record.name,
            _shown(message),
            self._process,
            os.getpid(),
            _shown(error),
        )
        return msgspec.json.encode(line).decode()


def _shown(text: str) -> str:
    """Text that can be encoded, without credentials in URLs."""
    return _CREDENTIALS.sub("", text).encode(errors="backslashreplace").decode()


class LogStream(io.TextIOBase):
    """A standard error on which every line becomes a line of the log."""

    def __init__(self, handler: logging.StreamHandler[TextIO]) -> None:
        super().__init__()
        self._handler = handler
        self._begun = ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._log(line)
        return len(text)

    def flush(self) -> None:
        self._handler.flush()

    def close(self) -> None:
        rest, self._begun = self._begun, ""
        self._log(rest)
        super().close()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._handler.stream.fileno()

    def _log(self, line: str) -> None:
        head = line.partition(":")[0].strip().upper()
        level = getattr(logging, head) if head in ("ERROR", "WARNING") else logging.INFO
        if line.strip():
            self._handler.handle(logging.LogRecord(SAID, level, "", 0, line.strip(), (), None))


def _log_end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        logging.getLogger(SAID).critical(
            "ended by an error that was not foreseen", exc_info=(kind, error, trace)
        )


def _log_thread_end(given: threading.ExceptHookArgs) -> None:
    if given.exc_value is not None:
        _log_end(given.exc_type, given.exc_value, given.exc_traceback)
