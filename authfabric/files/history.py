"""A broker's history in files: where the database is unless told otherwise, its key, and what is to be kept."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer
import yaml

from authfabric.files.capabilities import FileRefused, read_file
from authfabric.files.settings import own_state_folder
from authfabric.terminal import seconds_of
from authz import AuthFabricError
from bus.identity import KeyFileRefused, read_private, write_private
from pubsub_core.history import HistorySetting, KeepRule, Search

DEFAULT = "default"
KEY_BYTES = 32
_FILE = "sqlite:///"
_FOR_EVER = "for ever"
_NOTHING = "nothing"

Database = Annotated[
    str | None,
    typer.Option(
        "--history",
        metavar="URL",
        help="Where events are kept: `default` for a file below the state folder, "
        "sqlite:///FILE, or postgresql://HOST/NAME.",
    ),
]
HistoryKey = Annotated[
    Path | None,
    typer.Option(
        "--history-key", help="The file with the key that seals the history. Made if it is not there."
    ),
]
KeepFile = Annotated[
    Path | None,
    typer.Option("--keep", help="What is kept of which type, and how long. Default: all, for ever."),
]


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    """One entry of a file for `--keep`."""

    type: str
    keep: str = _FOR_EVER
    search: dict[str, Search] = {}


def history_setting(
    url: str | None, key: Path | None, keep: Path | None, broker: str, *, create: bool = True
) -> HistorySetting | None:
    """What the options of a command say; None without a URL. Raises FileRefused, KeyFileRefused and NoSuchHistory.

    With `create` a key that is not there is made.
    """
    if url is None:
        if key is not None or keep is not None:
            raise NoHistory
        return None
    folder = own_state_folder() / "history"
    where = f"{_FILE}{folder / broker}.db" if url == DEFAULT else history_url(url)
    path = key or history_key_path(broker)
    if not create and url == DEFAULT and key is None and not path.exists():
        raise NoSuchHistory(broker, sorted(each.stem for each in folder.glob("*.key")))
    if not create and key is None and not path.exists():
        raise KeyFileRefused(path, "is not there: name the key of this database by `--history-key`")
    if create and not path.exists():
        if where.startswith(_FILE) and Path(where.removeprefix(_FILE)).exists():
            raise KeyFileRefused(path, "is gone, and the history that it opens is not: put it back")
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_history_keys(path, (secrets.token_bytes(KEY_BYTES),))
    rules = read_file(keep, lambda text, _: _rules(keep, text)) if keep is not None else ()
    keys = partial(read_history_keys, path)
    return HistorySetting(where, keys()[-1], rules, keys)


def history_key_path(broker: str) -> Path:
    """Where the key of a broker's history is, unless told otherwise."""
    return own_state_folder() / "history" / f"{broker}.key"


class NoSuchHistory(AuthFabricError):
    """This user's brokers have kept nothing under such a name; `others` are those that have."""

    def __init__(self, broker: str, others: list[str]) -> None:
        known = f"name one by `--broker`: {', '.join(others)}" if others else "none has been kept here"
        super().__init__(f"there is no history of the broker `{broker}`: {known}")
        self.broker = broker
        self.others = others


class NoHistory(AuthFabricError):
    """Something was said about a history, and there is none."""

    def __init__(self) -> None:
        super().__init__("`--history-key` and `--keep` are about a history: name its database by `--history`")


def history_url(url: str) -> str:
    """The URL by which a database is opened: PostgreSQL's own name no driver."""
    for scheme in ("postgresql://", "postgres://"):
        if url.startswith(scheme):
            return f"postgresql+psycopg://{url.removeprefix(scheme)}"
    return url


def read_history_keys(path: Path) -> tuple[bytes, ...]:
    """The keys in a file, the newest last. Raises KeyFileRefused."""
    try:
        secrets = tuple(bytes.fromhex(each) for each in read_private(path).decode("ascii").split())
    except ValueError:
        secrets = ()
    if not secrets or any(len(each) != KEY_BYTES for each in secrets):
        raise KeyFileRefused(path, "must hold 64 hexadecimal digits, as `broker serve --history` writes them")
    return secrets


def write_history_keys(path: Path, keys: Iterable[bytes]) -> None:
    """Put these keys in the place of those in a file, the newest last. Raises KeyFileRefused."""
    write_private(path, "".join(f"{each.hex()}\n" for each in keys).encode(), replace=True)


def _rules(path: Path, text: str) -> tuple[KeepRule, ...]:
    try:
        entries = msgspec.convert(yaml.safe_load(text) or [], list[_Entry])
    except yaml.YAMLError as error:
        raise FileRefused(path, f"is not YAML: {str(error).splitlines()[0]}") from None
    except msgspec.ValidationError as error:
        raise FileRefused(path, f"must list types with `keep` and `search`: {error}") from None
    return tuple(_rule(path, each) for each in entries)


def _rule(path: Path, entry: _Entry) -> KeepRule:
    seconds = seconds_of(entry.keep)
    if seconds is None and entry.keep not in (_FOR_EVER, _NOTHING):
        problem = f"says `keep: {entry.keep}`: write `{_FOR_EVER}`, `{_NOTHING}`, or a length such as 90d"
        raise FileRefused(path, problem)
    return KeepRule(entry.type, entry.keep != _NOTHING, seconds, entry.search)
