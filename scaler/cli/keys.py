"""scaler_keys: create, grant and revoke the keys of a scheduler that listens on TCP."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path

from scaler.cli import options
from scaler.cli.terminal import TableColumn, ends_in_order, fail, say, say_table
from scaler.config import ConfigError, check_address
from scaler.endpoint import TCP, Endpoint
from scaler.keys import finding
from scaler.keys.allowed import KEY_SHOWN, OwnerTerms, amount_of, share_of
from scaler.keys.folder import KeyFolder
from scaler.keys.key_file import ADMIN, CLIENT, MONITOR, ROLES, WORKER, KeyFile

DESCRIPTION = """\
Create, grant and revoke the keys of a scheduler on TCP. Only programs with one of its keys can connect; connections are
encrypted.
"""
EPILOG = """\
roles:
  client     submits tasks
  worker     is a cluster: it runs the tasks of all clients, and these clients unpickle its results
  monitor    watches (scaler_top, scaler_ui)
  admin      is a client that may also end the scheduler and all workers

examples:
  scaler_keys new tcp://10.0.0.5:2345                keys for a scheduler at that address, in ~/.scaler
  scaler_keys allow alice --role client              prints the path of a key file for Alice: .../alice.json
  scaler_keys allow bob --role client --share 2      Bob gets two tasks for each task that Alice gets
  scaler_keys allow eve --role client --tasks 1000 --bytes 20G
                                                     Eve's open tasks have these limits; her other tasks wait
  scaler_keys revoke alice                           ends her sessions within a second
  scaler_keys check alice.json                       describes the key file

Anyone who has such a file can connect: treat it like a password. Alice may store it anywhere, and gives its path:
Client("alice.json"), scaler_cluster ADDRESS --key-file FILE, or SCALER_KEY_FILE.
"""

COLUMNS = (
    TableColumn("ROLE"),
    TableColumn("NAME", least=12),
    TableColumn("KEY", rank=1),
    TableColumn("TERMS", least=16),
)

_share, _amount = options.value_of(share_of), options.value_of(amount_of)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    parser = options.new_parser("scaler_keys", DESCRIPTION, EPILOG)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    new = commands.add_parser("new", help="create the keys of a scheduler, before it is started")
    new.add_argument(
        "addresses",
        metavar="ADDRESS",
        nargs="+",
        help="the address of the scheduler; also that of its monitor stream, if the stream is on TCP",
    )
    allow = commands.add_parser("allow", help="create a key, and print the path of its file")
    allow.add_argument("name", metavar="NAME", help="the owner of the key, as lists and logs show it")
    allow.add_argument("--role", choices=ROLES, required=True, help="what the owner may do")
    allow.add_argument(
        "--share", type=_share, default=1, metavar="N", help="a share of 2 gets twice as many tasks as 1 (default: 1)"
    )
    allow.add_argument(
        "--tasks", type=_amount, default=0, metavar="N", help="the most open tasks of the owner (default: no limit)"
    )
    allow.add_argument(
        "--bytes",
        type=_amount,
        default=0,
        metavar="N",
        help="the most bytes of the owner's values, such as 20G (default: no limit)",
    )
    allow.add_argument("--until", type=_day, metavar="YYYY-MM-DD", help="the last day on which the key is valid")
    revoke = commands.add_parser("revoke", help="revoke a key, and end its sessions")
    revoke.add_argument("name", metavar="NAME", help="the owner, as named with allow")
    commands.add_parser("list", help="list the keys")
    commands.add_parser("rotate", help="replace the key of the scheduler; used from its next start")
    check = commands.add_parser("check", help="describe a key file")
    check.add_argument("file", metavar="FILE", type=Path, help="the key file")
    for each in commands.choices.values():
        text = "the folder of keys (default: the only one in ~/.scaler, or in SCALER_KEY_FOLDER)"
        text = "where to create them (default: in ~/.scaler, or in SCALER_KEY_FOLDER)" if each is new else text
        text = "also check that the key is on the list in this folder" if each is check else text
        each.add_argument("--folder", type=Path, metavar="FOLDER", help=text)
    return parser


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date such as 2027-01-31") from None


@ends_in_order
def main(argv: list[str] | None = None) -> None:
    """Run the command, and end the process."""
    parser = make_parser()
    arguments = parser.parse_args(argv)
    commands: dict[str, Callable[[argparse.Namespace], int]] = {
        "new": _new,
        "allow": _allow,
        "revoke": _revoke,
        "list": _list,
        "rotate": _rotate,
        "check": _check,
    }
    try:
        sys.exit(commands[arguments.command](arguments))
    except ConfigError as error:
        fail("scaler_keys", error)
    except OSError as error:
        fail("scaler_keys", f"{error.filename or ''}: {error.strerror or error}")


def _today() -> date:
    return datetime.now().astimezone().date()


def _folder(arguments: argparse.Namespace) -> KeyFolder:
    """Return the folder of keys that the arguments name. If they name none, return the only folder of this user."""
    if arguments.folder is not None:
        return KeyFolder(arguments.folder.absolute())
    home = finding.home()
    found = sorted(file.parent for file in home.glob(f"*/{finding.SCHEDULER_KEY}"))
    if len(found) == 1:
        return KeyFolder(found[0])
    if found:
        names = ", ".join(str(each) for each in found)
        raise ConfigError(f"there are keys of several schedulers; name one of these folders with --folder: {names}")
    raise ConfigError(
        f"there are no keys in {home}: create some with scaler_keys new ADDRESS, or name their folder with --folder"
    )


def _new(arguments: argparse.Namespace) -> int:
    for address in arguments.addresses:
        endpoint = check_address(address)
        if endpoint.scheme != TCP:
            raise ConfigError(f"keys are for TCP addresses; file permissions guard {address}")
    endpoint = check_address(arguments.addresses[0])
    path = arguments.folder.absolute() if arguments.folder is not None else finding.folder_for(endpoint)
    folder = KeyFolder.make(path, [finding.reachable(Endpoint.parse(each)) for each in arguments.addresses])
    says = "" if arguments.folder is None else f" --keys {path}"
    say(f"created the keys of the scheduler at {endpoint} in {path}")
    say(f"start it: scaler_scheduler {endpoint}{says}")
    say("files to give to other users:")
    for role, whom in ((CLIENT, "clients"), (WORKER, "clusters"), (MONITOR, "viewers"), (ADMIN, "admins")):
        say(f"  {whom + ':':9} {folder.path / f'{role}.json'}")
    say("to revoke access one by one, create a key for each person: scaler_keys allow NAME --role client")
    return 0


def _allow(arguments: argparse.Namespace) -> int:
    terms = OwnerTerms(arguments.share, arguments.tasks, arguments.bytes)
    say(_folder(arguments).allow(arguments.name, arguments.role, arguments.until, _today(), terms))
    return 0


def _revoke(arguments: argparse.Namespace) -> int:
    count = _folder(arguments).revoke(arguments.name, _today())
    say(f"revoked {count} key{'s' if count > 1 else ''} of {arguments.name}; a running scheduler ends its sessions")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    folder, today = _folder(arguments), _today()
    lines = [
        (key.role, key.name, f"{key.public[:KEY_SHOWN]}...", key.why_invalid(today) or " ".join(key.options()))
        for key in folder.allowed().values()
    ]
    say_table(COLUMNS, lines)
    return 0


def _rotate(arguments: argparse.Namespace) -> int:
    files = _folder(arguments).rotate()
    say("the scheduler uses its new key from the next start; before that, give users these files for both keys:")
    for file in files:
        say(f"  {file}")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    key = KeyFile.read(arguments.file.absolute())
    say(f"{arguments.file} is the key of {key.name}, as {key.role}, for {', '.join(key.addresses) or 'any address'}")
    if arguments.folder is None:
        return 0
    folder = _folder(arguments)
    known = folder.allowed().get(key.public)
    if known is None:
        raise ConfigError(f"the key is not on the list {folder.list_path}")
    reason = known.why_invalid(_today())
    if reason:
        raise ConfigError(f"the key is no longer valid: {reason}")
    if not {pair.public for pair in folder.pairs()} & {*key.servers}:
        raise ConfigError(
            f"the file is for an earlier key of the scheduler, not for the one in {folder.path}: copy the file again"
        )
    say(f"the key is on the list of {folder.path}")
    return 0


if __name__ == "__main__":
    main()
