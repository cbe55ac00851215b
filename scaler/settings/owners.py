"""Owners: checks that only the user and root could have written the settings that a program has found."""

from __future__ import annotations

import grp
import os
import pwd
import stat

from scaler.config import ConfigError

_WHY = (
    "settings can run code, so those in the working directory are used only if you and root alone can write them. "
    "If you trust them, {}; if not, run elsewhere, with settings as arguments or environment variables"
)


def check_owners(name: str, opened: os.stat_result) -> None:
    """Refuse a file that another user could have written or replaced.

    The owner of the file must be the user of this process or root, and no other user may write the file. The same holds
    for its folder, and for both ends of a link. There are three exceptions: the private group of the owner (many
    systems create such a group for each user), folders with the sticky bit such as `/tmp`, and read-only mounts.

    Args:
        opened: the status of the open file.

    Raises:
        ConfigError: if the file is refused; the message names the path, the owner and what to do.
        OSError: if the file was removed meanwhile.
    """
    _check_owner(name, opened)
    _check_owner(name, os.lstat(name))
    for folder in {os.path.dirname(name), os.path.dirname(os.path.realpath(name))}:  # noqa: PTH120
        _check_owner(folder, os.stat(folder))  # noqa: PTH116


def _check_owner(name: str, status: os.stat_result) -> None:
    owner, mode, me = status.st_uid, status.st_mode, os.geteuid()
    if owner not in (me, 0):
        yours = "run in a folder of your own" if stat.S_ISDIR(mode) else f"make it yours (chown -h {_user(me)} {name})"
        raise ConfigError(
            f"{name} belongs to {_user(owner)}, and this program runs as {_user(me)}; {_WHY.format(yours)}"
        )
    if others_can_write(name, status):
        raise ConfigError(
            f"{name}, of {_user(owner)}, can be written by others: its mode is {stat.S_IMODE(mode):o}; "
            f"{_WHY.format(f'remove that permission (chmod go-w {name})')}"
        )


def others_can_write(name: str, status: os.stat_result) -> bool:
    """Return whether users other than the owner and root can write a file, or replace files of others in a folder."""
    owner, mode = status.st_uid, status.st_mode
    is_kept = stat.S_ISLNK(mode) or (stat.S_ISDIR(mode) and mode & stat.S_ISVTX)
    others = mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not _is_private(status.st_gid, owner))
    return bool(others) and not is_kept and not os.statvfs(name).f_flag & os.ST_RDONLY


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _is_private(gid: int, owner: int) -> bool:
    """Return whether a group is the private group of a user: the group has the user's name, and no other members."""
    try:
        user, group = pwd.getpwuid(owner), grp.getgrgid(gid)
    except KeyError:
        return False
    return gid == user.pw_gid and group.gr_name == user.pw_name and {*group.gr_mem} <= {user.pw_name}
