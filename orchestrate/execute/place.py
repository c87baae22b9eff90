"""Where a run's folder lies, so that a copy of it can be told from the original.

Used by the keeper's half of the package too: standard library only.
"""

from __future__ import annotations

import os


def place_of(folder: str) -> str:
    """Where a folder lies: device and inode, and the boot in which the device has its number."""
    found = os.stat(folder)
    return f"{found.st_dev}:{found.st_ino}:{_boot()}"


def is_same_place(one: str, other: str) -> bool:
    """The same device and inode; after a boot devices may have other numbers."""
    if not one or not other:
        return True  # unknown
    device, inode, boot = one.split(":", 2)
    other_device, other_inode, other_boot = other.split(":", 2)
    return inode == other_inode and (device == other_device or boot != other_boot)


def is_same_boot(one: str, other: str) -> bool:
    """Were both written down in the same boot? Nothing of another one is alive."""
    if not one or not other:
        return True  # unknown
    return one.split(":", 2)[2] == other.split(":", 2)[2]


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
