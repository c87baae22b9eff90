"""What to do with the worktree of a run: how to look at it, merge it, or remove it."""

from __future__ import annotations

import shlex

from orchestrate.plan.visible import plural, visible
from orchestrate.state.worktree import Worktree


def worktree_words(tree: Worktree, left: tuple[int, int] | None) -> str:
    """`left` are the files that were not committed and the commits that no other branch has."""
    lines = [f"worktree: {tree.path} (branch {tree.branch})"]
    if left is None:
        return _shown(lines)
    files, commits = left
    there, home = ("git", "-C", tree.path), ("git", "-C", tree.repository)
    if files:
        lines.append(f"  look:   {_command(*there, 'status')}")
        commit = f"{_command(*there, 'add', '-A')} && {_command(*there, 'commit')}"
        lines.append(f"  commit: {commit}   ({plural(files, 'file')})")
    if commits:
        lines.append(f"  look:   {_command(*there, 'log', '-p', f'{tree.base[:12]}..')}")
    if files or commits:
        lines.append(f"  merge:  {_command(*home, 'merge', tree.branch)}")
    else:
        lines.append("  nothing in it is unmerged")
    force = ("--force",) if files else ()
    away = _command(*home, "worktree", "remove", *force, tree.path)
    branch = _command(*home, "branch", "-D" if commits or files else "-d", tree.branch)
    lost = "   (and lose what is not merged)" if files or commits else ""
    lines.append(f"  remove: {away} && {branch}{lost}")
    return _shown(lines)


def _command(*words: str) -> str:
    return shlex.join(words)


def _shown(lines: list[str]) -> str:
    return "".join(f"  {visible(line)}\n" for line in lines)
