"""`python -m tests.structure [--add]`: bring known_offenders.txt up to date.

Lines that no longer offend are dropped. New offenders are printed and are an error, unless `--add`
takes them in: only for one that is an old one under the name of another module.
"""

from __future__ import annotations

import sys

from tests.structure import known


def main() -> int:
    offending, before = known.today(), known.known()
    new = offending - before
    accepted = "--add" in sys.argv[1:]
    known.write(offending if accepted else offending & before)
    for line in sorted(new):
        print(f"new: {line}")
    print(f"{len(before - offending)} fewer, {len(new)} new, {len(offending)} offenders in all")
    return 0 if accepted or not new else 1


if __name__ == "__main__":
    sys.exit(main())
