"""Private files and folders: only the owner has ever been able to read, write or enter them, whatever the umask.

Used for keys, jobs, the token of `scaler_ui`, stores and sockets. Errors do not quote the content of a file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from scaler.config import ConfigError

BYTES_MOST = 16 * 1024 * 1024
"""The most bytes of a private file that is read, unless the caller gives another limit."""


def read_private(path: Path, bytes_most: int = BYTES_MOST) -> str:
    """Return the text of a file that belongs to this user or root, and that no other user may read or write.

    Raises:
        ConfigError: if the file is a link, not a regular file, too large, unreadable, or open to other users.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ConfigError(f"{path} is a link, which is not followed: name the file itself") from None
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError(f"{path} is not a regular file")
        _check_owner(path, found)
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise ConfigError(
                f"users other than its owner may read {path}: its mode is {stat.S_IMODE(found.st_mode):o}. A user who "
                f"has read it can act as you: make it private (chmod 600 {path}). If it held a key, ask for a new one"
            )
        if found.st_size > bytes_most:
            raise ConfigError(f"{path} has {found.st_size:,} bytes, and {bytes_most:,} is the limit: make it smaller")
        return os.read(descriptor, bytes_most).decode("utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text") from None
    finally:
        os.close(descriptor)


def write_private(path: Path, text: str, *, is_new: bool = False) -> None:
    """Write a file of mode 0600, completely or not at all.

    Raises:
        FileExistsError: if `is_new` and the file exists; without `is_new`, an existing file is replaced.
        OSError: if the file cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        if is_new:
            os.link(part, path, follow_symlinks=False)
        else:
            part.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()


def make_private_folder(path: Path, what: str = "folder of keys") -> None:
    """Make a folder of mode 0700 and its missing parents, or check the existing folder.

    Args:
        what: the purpose of the folder, for errors.

    Raises:
        ConfigError: if other users can enter the folder, or the folder belongs to another user.
        OSError: if the folder cannot be made.
    """
    with contextlib.suppress(FileExistsError):
        new_private_folder(path)
    check_private_folder(path, what)


def new_private_folder(path: Path) -> None:
    """Make a folder of mode 0700, and its missing parents.

    Raises:
        FileExistsError: if the folder exists.
        OSError: if the folder cannot be made.
    """
    if not path.parent.exists():
        with contextlib.suppress(FileExistsError):  # another process made it meanwhile
            new_private_folder(path.parent)
    path.mkdir(mode=0o700)
    path.chmod(0o700)  # the umask may take bits away


def private_opener(path: str, flags: int) -> int:
    """Open a file; a missing file is created with mode 0600. Used as the `opener` of `open`."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def check_private_folder(path: Path, what: str = "folder of keys") -> None:
    """Raise `ConfigError` unless the path is a folder of this user or root that no other user can enter."""
    try:
        found = path.lstat()
    except OSError as error:
        raise ConfigError(f"the {what} {path} cannot be read: {error.strerror}") from None
    if not stat.S_ISDIR(found.st_mode):
        raise ConfigError(f"{path} is not a {what}: it is a {'link' if stat.S_ISLNK(found.st_mode) else 'file'}")
    _check_owner(path, found)
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigError(
            f"users other than its owner can enter the {what} {path}: its mode is {stat.S_IMODE(found.st_mode):o}; "
            f"make it private: chmod 700 {path}"
        )


def check_own(path: Path, is_folder: bool = False) -> None:
    """Raise `ConfigError` unless the path is a file or folder of this user or root, and not a link.

    Raises:
        FileNotFoundError: if the path does not exist.
    """
    found = path.lstat()
    if not (stat.S_ISDIR if is_folder else stat.S_ISREG)(found.st_mode):
        what = "link, which is not followed" if stat.S_ISLNK(found.st_mode) else "file of another kind"
        raise ConfigError(f"{path} is not a {'folder' if is_folder else 'file'}: it is a {what}")
    _check_owner(path, found)


def _check_owner(path: Path, found: os.stat_result) -> None:
    if found.st_uid not in (os.geteuid(), 0):
        raise ConfigError(
            f"{path} belongs to another user (uid {found.st_uid}), who could have written anything there. Only files "
            "of your own or of root are read: copy it"
        )
