"""Programs that behave badly: they leave processes behind, spell secrets, talk to terminals."""

from __future__ import annotations

import base64
import json
import random
import re
import shlex
import urllib.parse
from pathlib import Path

from tests.promises.processes import alive, progress_of

# A tree that does not want to end: sessions of their own, orphans of orphans, an emptied
# environment, another directory, deaf to TERM. Every part has the number in its command line.
_TREE = """\
number=$1
setsid sleep $number &
setsid sh -c "trap '' TERM INT HUP; sleep $number; sleep $number" &
( (trap '' TERM; sleep $number; sleep $number) & ) &
( cd / && env -i setsid sleep $number & ) &
nohup sleep $number > /dev/null 2>&1 &
sleep 0.2
echo . > grown
"""


class Tree:
    """A script that grows such a tree, and a way to find what is left of it."""

    def __init__(self, folder: Path) -> None:
        self.number = str(random.SystemRandom().randrange(10**8, 10**9))
        (folder / "tree.sh").write_text(_TREE, "utf-8")

    def grow(self, then: str) -> list[str]:
        """The command that grows it and then does something else."""
        return ["sh", "-c", f". ../tree.sh; {then}", "sh", self.number]

    def living(self) -> list[int]:
        mark = b"\0" + self.number.encode() + b"\0"
        return [pid for pid in alive() if mark in progress_of(pid)]


# Prints a secret in every spelling, and each of them cut in two at every byte.
SPEAKER = """\
import json, os, sys, time
forms = [form.encode() for form in json.loads(os.environ["FORMS_FOR_TEST"])]
for out in (sys.stdout.buffer, sys.stderr.buffer):
    for form in forms:
        out.write(b"form " + form + b"\\n")
        out.flush()
    for form in forms:
        for cut in range(1, len(form), int(sys.argv[2])):
            out.write(form[:cut])
            out.flush()
            time.sleep(0.0005)
            out.write(form[cut:] + b"\\n")
            out.flush()
sys.exit(int(sys.argv[1]))
"""


def spellings(secret: str) -> list[str]:
    """How a secret may be written by programs; the promise names these."""
    data = secret.encode()
    whole = [
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps([secret]))[1:-1],
        urllib.parse.quote(secret, safe=""),
        urllib.parse.quote(secret),
        urllib.parse.quote_plus(secret),
        base64.b64encode(data).decode(),
        base64.b64encode(b"me:" + data).decode(),
        base64.b64encode(b"you:" + data + b"\n").decode(),
        base64.urlsafe_b64encode(data).decode().rstrip("="),
        data.hex(),
        data.hex().upper(),
        shlex.quote(secret)[1:-1],
        re.sub(r'([$`"\\])', r"\\\1", secret),
        re.sub(r"([^\w@%+=:,./\n-])", r"\\\1", secret, flags=re.ASCII),
    ]
    return [*whole, *secret.splitlines()]
