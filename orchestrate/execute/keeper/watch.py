"""One attempt from its request to its exit record: started, captured, timed out, ended.

It is driven by its host, a warden or the keeper itself: the host polls and says what is
ready. A program that ends quickly costs a single wake-up; only one that does not has its output
read as it comes and its orphans collected while it runs.
"""

from __future__ import annotations

import os
import select
import sys
import time

from orchestrate.execute.flat_json import json_of
from orchestrate.execute.keeper import tree
from orchestrate.execute.keeper.capture import Sink, open_tee
from orchestrate.execute.keeper.launch import NOT_EXECUTABLE, Launch, StartFault
from orchestrate.execute.keeper.orphans import forget_at_work, note_at_work
from orchestrate.execute.keeper.protocol import REQUEST_FIELDS, bytes_of, now, text_of, unpack
from orchestrate.execute.keeper.slots import HeldSlot
from orchestrate.execute.keeper.standard import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from orchestrate.execute.flat_json import Scalar
    from orchestrate.execute.keeper.watch_loop import WatchHost

# Timeouts go on while the machine sleeps, but poll's clock may not: look at least this often.
_LONGEST_SLEEP_S = 30.0
_KILL_PATIENCE_S = 10.0
# A lease is looked at soon after the machine has slept: what gave it counts that time, too.
_LEASED_SLEEP_S = 1.0
# How long output may wait in the pipe to see whether the program ends at once.
_QUICK_S = 0.002


class Watch:
    """An attempt. What needs no claim is done on creation; `start` is for when it is durable.

    `is_follower`: another program runs in between, and may change what is found on creation.
    """

    def __init__(
        self, host: WatchHost, attempt: str, body: bytes, *, is_follower: bool = False
    ) -> None:
        self._host = host
        self._request = _fields_of(body)
        self._mask = host.mask_of(self._request["secrets"])
        env = host.environment_of(self._request["env"], attempt)
        self._launch = Launch(self._request, env, host.folder)
        self._is_follower = is_follower
        if not is_follower:
            self._launch.look_around()
        self._out = Sink(host.take_pipe(), self._request["stdout_path"], self._mask)
        self._err = Sink(host.take_pipe(), self._request["stderr_path"], self._mask)
        self.pid = 0
        self.fds: set[int] = set()  # what the host listens to for it
        self.record: bytes | None = None  # of its exit, once there is one
        self.is_success = False  # does the record say 0, and all that was printed?
        self._handle = -1
        self._collected: tuple[int, int] | None = None
        self._began = 0.0
        self._started_at = 0.0
        self._quick_until: float | None = None
        self._deadline: float | None = None
        self._kill_at: float | None = None
        self._silence_s = float(self._request["silence_s"] or 0)
        self._heard_at = 0.0
        self._timed_out = False
        self._fell_silent = False
        lease_until = self._request.get("lease_until")
        self._lease_until = float(lease_until) if lease_until else None
        self._lease_expired = False
        self._stopped = ""
        self._early_stop: tuple[str, float] | None = None
        self._slot = HeldSlot(self._request.get("slot", b""))

    def drop(self) -> None:
        """The claim could not be recorded: the program never starts."""
        self._slot.release()
        self._launch.close()
        for sink in (self._out, self._err):
            os.close(sink.program_end)
            sink.close_pipe()

    def start(self) -> None:
        if self._is_follower:
            self._launch.look_around()
        timeout = self._request["timeout_s"]
        self._started_at = time.time()
        self._began = now()
        self._heard_at = time.monotonic()
        self._deadline = self._began + float(timeout) if timeout else None
        try:
            if self._is_lease_over():
                # Our process stood still: what gave the lease may have started another program.
                self._lease_expired = True
                self._write_record(NOT_EXECUTABLE, start_error="its lease had expired before")
                return
            self._out.tee.fd = open_tee(self._request["tee_path"], self._request["tee_root"])
            self.pid = self._launch.start(self._out.program_end, self._err.program_end)
        except StartFault as fault:
            self._write_record(fault.code, start_error=str(fault), start_fault=fault.name)
            return
        finally:
            self._launch.close()
            os.close(self._out.program_end)
            os.close(self._err.program_end)
        try:
            self._handle = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # not Linux, an old kernel, a sandbox
            self._read_along()
        else:
            self._listen(self._handle)
            self._quick_until = self._began + _QUICK_S
        if self._early_stop is not None:
            self.stop(*self._early_stop)

    def hear(self, fd: int) -> None:
        """One of `fds` is ready."""
        if fd == self._handle:
            self._end()
            return
        sink = self._out if fd == self._out.fd else self._err
        if sink.pump():
            self._heard_at = time.monotonic()
        if not sink.is_open:
            self._host.poll.unregister(fd)
            self.fds.remove(fd)

    def look_at_clock(self) -> None:
        """To be called whenever the host has woken up, at the latest after `sleep_ms`."""
        if self.record is not None or not self.pid:
            return
        time_now = now()
        if self._quick_until is not None and time_now >= self._quick_until:
            self._read_along()
        if self._kill_at is None:
            self._timed_out = self._deadline is not None and time_now >= self._deadline
            self._fell_silent = not self._timed_out and self._silence_left_s() <= 0
            self._lease_expired = self._is_lease_over()
            if (self._timed_out or self._fell_silent) and tree.has_ended(self.pid):
                # In time, or while we stood still: nobody can tell, and it was not us.
                self._timed_out = self._fell_silent = False
            if self._timed_out or self._fell_silent or self._lease_expired:
                self.stop("", float(self._request["grace_s"]))
        if self._kill_at is not None and now() >= self._kill_at:
            tree.signal_tree(self.pid, signal.SIGKILL, self._host.spared())
            self._kill_at = now() + 0.05

    def sleep_ms(self) -> float:
        if self.record is not None:
            return 0.0
        due = self._kill_at if self._kill_at is not None else self._deadline
        if self._quick_until is not None:
            due = self._quick_until if due is None else min(due, self._quick_until)
        rest_s = _LONGEST_SLEEP_S if due is None else due - now()
        if self._kill_at is None:
            rest_s = min(rest_s, self._silence_left_s())
            if self._lease_until is not None:
                rest_s = min(rest_s, self._lease_until - now(), _LEASED_SLEEP_S)
        return 1000 * min(_LONGEST_SLEEP_S, max(0.0, rest_s) + 0.0005)

    def _silence_left_s(self) -> float:
        """Unlike the limit of the whole, it stands still while the machine sleeps: so does speech.

        What waits in the pipe of a program that is not read along is heard at its first look.
        """
        if not self._silence_s:
            return _LONGEST_SLEEP_S
        return self._heard_at + self._silence_s - time.monotonic()

    def _is_lease_over(self) -> bool:
        return self._lease_until is not None and now() >= self._lease_until

    def renew(self, until: float) -> None:
        """Let the lease last longer; one that has expired is not renewed."""
        if self._lease_until is not None and not self._is_lease_over():
            self._lease_until = max(self._lease_until, until)

    def stop(self, reason: str, grace_s: float) -> None:
        """Ask the tree to end; a second, more impatient request shortens the first one's grace.

        A program that has ended by itself, and is only not collected yet, was not stopped: what it
        has done would be done again.
        """
        if not self.pid:
            self._early_stop = (reason, grace_s)
            return
        if self._kill_at is None and not self._lease_expired and tree.has_ended(self.pid):
            return
        if self._kill_at is None:
            self._stopped = reason
            tree.signal_tree(self.pid, signal.SIGTERM, self._host.spared())
            # A stopped process cannot obey.
            tree.signal_tree(self.pid, signal.SIGCONT, self._host.spared())
        until = now() + grace_s
        self._kill_at = until if self._kill_at is None else min(self._kill_at, until)

    def kill(self) -> None:
        """No process is left to record its end."""
        if self.pid and self.record is None:
            tree.signal_tree(self.pid, signal.SIGKILL)

    def collect(self) -> None:
        """Some child has ended: an orphan of the tree, or the program itself."""
        if self.record is not None or not self.pid:
            return
        if hasattr(os, "waitid"):
            if tree.collect_orphans(self.pid, self._host.spared()):
                self._end()
            return
        # macOS before Python 3.13; no orphans come to us there.
        pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        if pid:
            self._collected = (status, usage.ru_maxrss)
            self._end()

    def _read_along(self) -> None:
        """It is not a quick one."""
        self._quick_until = None
        note_at_work(self._host.folder, self._host.token, self.pid)
        for sink in (self._out, self._err):
            self._listen(sink.fd)
        self._host.listen_for_children(True)
        self.collect()  # who ended before we listened

    def _listen(self, fd: int) -> None:
        self._host.poll.register(fd, select.POLLIN)
        self.fds.add(fd)

    def _end(self) -> None:
        """The program has ended and is not collected yet, so its number cannot be another's."""
        if self._quick_until is None:
            self._host.listen_for_children(False)
        for fd in self.fds:
            self._host.poll.unregister(fd)
        self.fds.clear()
        if self._handle >= 0:
            os.close(self._handle)
        tree.signal_group(self.pid, signal.SIGKILL)
        if self._collected is None:
            _, status, usage = os.wait4(self.pid, 0)
            self._collected = (status, usage.ru_maxrss)
        status, max_rss = self._collected
        survivors = tree.end_descendants(_KILL_PATIENCE_S, self._host.spared)
        if self._quick_until is None:
            forget_at_work(self._host.folder, self.pid)
        code = os.waitstatus_to_exitcode(status)
        self._write_record(code, max_rss_kb=_in_kb(max_rss), survivors=survivors)

    def _write_record(
        self,
        code: int,
        *,
        max_rss_kb: int = 0,
        survivors: int = 0,
        start_error: str = "",
        start_fault: str = "",
    ) -> None:
        self._slot.release()
        duration = now() - self._began
        out, err = self._out.finish(), self._err.finish()
        faults = start_error or self._out.log.error or self._err.log.error or self._out.tee.error
        is_whole = out is not None and err is not None and not faults and not survivors
        self.is_success = code == 0 and is_whole and self._kill_at is None
        fields: dict[str, Scalar] = {
            "code": code if code >= 0 else None,
            "pid": self.pid,
            "started_at": self._started_at,
            "ended_at": time.time(),
            "duration_s": round(duration, 6),
            "stdout_bytes": self._out.size,
            "stderr_bytes": self._err.size,
            "stdout": out,
            "stderr": err,
            "max_rss_kb": max_rss_kb,
        }
        if not self.is_success:
            # Of a program that has ended well it goes without saying.
            fields |= {
                "signal": -code if code < 0 else None,
                "timed_out": self._timed_out,
                "fell_silent": self._fell_silent,
                "stopped": self._masked(self._stopped)[:500],
                "start_error": self._masked(start_error)[:1000],
                "start_fault": start_fault,
                "stdout_fault": self._out.log.error,
                "stderr_fault": self._err.log.error,
                "tee_fault": self._out.tee.error,
                "survivors": survivors,
                "lease_expired": self._lease_expired,
            }
        self.record = json_of(fields)

    def _masked(self, text: str) -> str:
        return text_of(self._mask.apply(bytes_of(text))) if text else ""


def _fields_of(body: bytes) -> dict[str, bytes]:
    """A request; the last fields, the lease and the slot, may be left out."""
    fields = unpack(body)
    return dict(
        zip(REQUEST_FIELDS[: max(len(fields), len(REQUEST_FIELDS) - 2)], fields, strict=True)
    )


def _in_kb(max_rss: int) -> int:
    return max_rss // 1024 if sys.platform == "darwin" else max_rss
