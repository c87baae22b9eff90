"""`python -m tests.mutants [MODULE…]`: which faults would our tests not notice?

Prints every mutant that survived, and ends with 1 if fewer than 90 % were killed. Mutants that
change nothing that can be seen are named in `equivalent.txt`, with the reason.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

from tests.mutants.making import Mutant, mutants_of
from tests.mutants.modules import PROJECT, TESTS
from tests.mutants.trying import CannotIsolate, Copy, describe

_EQUIVALENT = Path(__file__).with_name("equivalent.txt")
_ENOUGH = 0.9


Key = tuple[str, str, str]


def known_equivalents() -> set[Key]:
    """`MODULE ;; the line ;; BEFORE  ->  AFTER ;; why`, one a line."""
    found = set()
    for line in _EQUIVALENT.read_text("utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            module, text, change, _why = line.split(" ;; ")
            found.add((module, text, change))
    return found


def key_of(module: str, lines: list[str], mutant: Mutant) -> Key:
    return module, lines[mutant.line - 1].strip(), f"{mutant.before}  ->  {mutant.after}"


def chosen_mutants(modules: list[str], sample: int, seed: int) -> list[tuple[str, Mutant]]:
    stale = {key for key in known_equivalents() if key[0] in modules}
    equivalents = stale.copy()
    every = []
    for module in modules:
        source = (PROJECT / module).read_text("utf-8")
        lines = source.splitlines()
        for mutant in mutants_of(source):
            key = key_of(module, lines, mutant)
            stale.discard(key)
            if key not in equivalents:
                every.append((module, mutant))
    for key in sorted(stale):
        describe("in equivalent.txt, but no mutant any more: {}".format(" ;; ".join(key)))
    if sample and sample < len(every):
        every = random.Random(seed).sample(every, sample)
    return sorted(every, key=lambda pair: (pair[0], pair[1].line))


def survivors_in(log: Path) -> set[str]:
    """The mutants that an earlier run could not kill, by what it printed."""
    return {line for line in log.read_text("utf-8").splitlines() if line.startswith("survived:")}


def told(module: str, mutant: Mutant) -> str:
    lines = (PROJECT / module).read_text("utf-8").splitlines()
    return "survived:{}: {}".format(mutant.line, " ;; ".join(key_of(module, lines, mutant)))


def try_all(mutants: list[tuple[str, Mutant]], workers: int) -> list[tuple[str, Mutant]]:
    """Those that survived."""
    survivors: list[tuple[str, Mutant]] = []
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as top,
        ThreadPoolExecutor(workers) as pool,
    ):
        copies: Queue[Copy] = Queue()
        for number in range(workers):
            copies.put(Copy(Path(top) / f"copy-{number}"))
        usual = {
            tests: max(pool.map(lambda trial, tests=tests: _usual_s(trial, tests), copies.queue))
            for tests in {TESTS[name] for name, _ in mutants}
        }

        def survives(pair: tuple[str, Mutant]) -> bool:
            module, mutant = pair
            trial = copies.get()
            try:
                tests = TESTS[module]
                return not trial.kills(module, mutant.source, tests, usual[tests])
            finally:
                copies.put(trial)

        verdicts = pool.map(survives, mutants)
        for number, (pair, survived) in enumerate(zip(mutants, verdicts, strict=True), 1):
            module, mutant = pair
            if survived:
                survivors.append(pair)
                describe(told(module, mutant))
            if number % 50 == 0:
                describe(f"{number} tried, {number - len(survivors)} killed")
    return survivors


def _usual_s(trial: Copy, tests: tuple[str, ...]) -> float:
    began = time.monotonic()
    if not trial.is_healthy(tests):
        sys.exit(f"{trial.said[-3000:]}\n{' '.join(tests)} fails without any mutant")
    return time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("modules", nargs="*", default=[*TESTS], metavar="MODULE")
    parser.add_argument("--sample", type=int, default=0, help="so many of them, by chance")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--again", type=Path, metavar="LOG", help="only those that survived then, by that run's log"
    )
    given = parser.parse_args()
    mutants = chosen_mutants(given.modules, given.sample, given.seed)
    if given.again:
        survived = survivors_in(given.again)
        mutants = [pair for pair in mutants if told(*pair) in survived]
    describe(f"{len(mutants)} mutants, --seed {given.seed}")
    try:
        survivors = try_all(mutants, given.workers)
    except CannotIsolate as reason:
        sys.exit(f"mutants are tried in namespaces only, and this machine gives none: {reason}")
    killed = len(mutants) - len(survivors)
    for module in sorted({module for module, _ in mutants}):
        tried = sum(name == module for name, _ in mutants)
        left = sum(name == module for name, _ in survivors)
        print(f"{module}: {tried - left} of {tried} killed")
    print(f"{killed} of {len(mutants)} mutants killed ({killed / max(1, len(mutants)):.1%})")
    return 0 if killed >= _ENOUGH * len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
