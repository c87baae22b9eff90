"""A network of its own for a worker: what leads to it is a pair of devices, which can be cut.

It needs root and `ip`. Where these are missing, what stands for it swallows what is sent.
"""

from __future__ import annotations

import os
import shutil
import subprocess

MAY_BE_MADE = os.geteuid() == 0 and shutil.which("ip") is not None


class Namespace:
    """The network of one machine, and our end of its line."""

    def __init__(self) -> None:
        name = os.urandom(3).hex()
        self._name, self._near, far = f"orch-{name}", f"on-{name}", f"of-{name}"
        first, second = os.urandom(2)
        self.our_address = f"10.{64 + first % 64}.{second}.1"
        self.words = ("ip", "netns", "exec", self._name)
        _ip("netns", "add", self._name)
        try:
            _ip("link", "add", self._near, "type", "veth", "peer", "name", far)
            _ip("link", "set", far, "netns", self._name)
            _ip("addr", "add", f"{self.our_address}/30", "dev", self._near)
            _ip("link", "set", self._near, "up")
            _ip("-n", self._name, "addr", "add", f"{self.our_address[:-1]}2/30", "dev", far)
            for device in ("lo", far):
                _ip("-n", self._name, "link", "set", device, "up")
        except BaseException:
            self.close()
            raise

    def cut(self) -> None:
        """Nothing comes through any more, and nothing is closed."""
        _ip("link", "set", self._near, "down")

    def close(self) -> None:
        """The pair goes with the namespace, once nothing of it is alive."""
        _ip("netns", "del", self._name)


def _ip(*words: str) -> None:
    subprocess.run(("ip", *words), check=True, capture_output=True)
