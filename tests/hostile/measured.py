"""Run one command and write down what it cost; a program of its own, so that the figures are clean.

A process started by pytest would be charged with pytest's own memory: Linux carries the largest
resident set over `exec`. This small one stands in between.

    python -I -S measured.py REPORT SECONDS COMMAND...
"""

from __future__ import annotations

import json
import os
import signal
import sys


def main() -> None:
    report, seconds, *command = sys.argv[1:]
    pid = os.posix_spawn(command[0], command, os.environ)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(pid, signal.SIGKILL))
    signal.alarm(int(seconds))
    _, status, usage = os.wait4(pid, 0)
    signal.alarm(0)
    cost = {
        "exit_code": os.waitstatus_to_exitcode(status),
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "memory_mb": usage.ru_maxrss / (1024 if sys.platform == "linux" else 1024 * 1024),
    }
    with open(report, "w", encoding="utf-8") as file:
        json.dump(cost, file)


if __name__ == "__main__":
    main()
