"""Examples for `--help`: what people do with each command, as lines that they can copy.

They stand here and not with the commands, so that a test can read them all. Each line has to parse
(tests/cli/test_help.py), and a command without an example fails that test.
"""

from __future__ import annotations

# command -> lines and what each does
EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "answer": (
        (
            "orchestrate answer a3f8c2.5d1e07.90ab12 approve",
            "an id of the inbox; the run goes on",
        ),
        ("orchestrate answer a3f8c2.5d1e07.90ab12 deny -m 'not yet'", "with a reason"),
    ),
    "approvals": (
        ("orchestrate approvals", "what waits for a person, and how to decide it"),
        ("orchestrate approvals --json", "the same for a script"),
    ),
    "approve": (
        ("orchestrate approve latest", "let the newest run go on"),
        ("orchestrate approve latest review --message 'ship it'", "one stage, with a remark"),
        ("orchestrate approve latest --resume", "and go on at once"),
    ),
    "attach": (
        ("orchestrate attach latest", "watch the newest run; Ctrl-C leaves it alone"),
        ("orchestrate attach latest --no-live", "as lines"),
    ),
    "cancel": (("orchestrate cancel latest", "end the newest run and its programs for good"),),
    "clean": (
        ("orchestrate clean --older-than 7d --dry-run", "what a week's rule would remove"),
        ("orchestrate clean --keep 10", "all but the newest ten"),
    ),
    "completion": (
        ('eval "$(orchestrate completion bash)"', "in ~/.bashrc"),
        ("orchestrate completion fish | source", "in ~/.config/fish/config.fish"),
    ),
    "config": (
        ("orchestrate config show --origin", "every setting, with its file and line"),
        ("orchestrate config path", "the files that are read"),
    ),
    "describe": (
        ("orchestrate describe implement-and-review", "what it does, and what it can be told"),
        ("orchestrate describe my-recipe.yaml --json", "its inputs, for a script"),
    ),
    "cost": (
        ("orchestrate cost", "the last seven days of this workspace"),
        ("orchestrate cost --all --by recipe --since 30d", "of all, the dearest recipe first"),
    ),
    "deny": (
        ("orchestrate deny latest --message 'not yet'", "end the run at its gate"),
        ("orchestrate deny latest review", "where several stages wait"),
    ),
    "doctor": (
        ("orchestrate doctor", "what is installed here, and what to do about the rest"),
        ("orchestrate doctor --json", "the same for a script"),
    ),
    "fetch": (("orchestrate fetch latest", "its files as a branch, and its folder"),),
    "fleet": (
        ("orchestrate fleet doctor", "what answers of what fleet.yaml names"),
        ("orchestrate fleet doctor gpu", "whether a worker serves the pool gpu, too"),
    ),
    "fork": (
        ("orchestrate fork latest --from Review", "another review, in a worktree of its own"),
        ("orchestrate fork latest --from Fix@2 -i hint='try X'", "from its second visit"),
        ("orchestrate fork latest --from Review --in-place -d", "here, in the background"),
    ),
    "guide": (
        ("orchestrate guide", "for an agent to read"),
        ("orchestrate guide --skill > .claude/skills/orchestrate-recipes/SKILL.md", "as a skill"),
    ),
    "inbox": (
        ("orchestrate inbox", "what waits for you, oldest first"),
        ("orchestrate inbox --diff", "with what has changed inside the files"),
        ("orchestrate inbox --json", "the same for a script"),
    ),
    "init": (
        ("orchestrate init", "asks for the agent and the kind of recipe"),
        ("orchestrate init --yes --dialect recipe --backend codex", "asks nothing"),
    ),
    "list": (
        ("orchestrate list", "what can be run by id"),
        ("orchestrate list --json", "with paths and dialects"),
    ),
    "logs": (
        ("orchestrate logs latest", "what happened"),
        ("orchestrate logs latest Build --stderr -n 20", "the last lines of a step's complaints"),
        ("orchestrate logs latest 'Count[3]/Words' --follow", "one item of a loop, as it goes"),
    ),
    "plan": (
        ("orchestrate plan --run latest --format svg", "the path that a run took, as a picture"),
        ("orchestrate plan workflows/release.yaml", "every step, and where its outcomes lead"),
        ("orchestrate plan rebase --format mermaid", "a drawing for Markdown"),
        ("orchestrate plan rebase --estimate", "calls at worst, and what earlier runs have cost"),
    ),
    "report": (
        ("orchestrate report latest --output report.html", "one page to send around"),
        ("orchestrate report latest --format md", "Markdown on standard output"),
    ),
    "resume": (
        ("orchestrate resume latest", "go on after a kill, a failure or an approval"),
        ("orchestrate resume 20260302T09", "a run by the beginning of its id"),
        ("orchestrate resume latest --edited", "go on after the recipe was repaired"),
        ("orchestrate resume latest --redo review", "its answer was bad: again from there"),
        ("orchestrate resume latest --force-restart", "start over after the recipe has changed"),
    ),
    "run": (
        ("orchestrate run tidy.yaml --dry-run", "what would happen"),
        ("orchestrate run tidy.yaml --backend rehearsal", "the whole path, without an agent"),
        ("orchestrate run implement-and-review --model opus", "a recipe of the catalogue"),
        ("orchestrate run review.yaml --context file=src/app.py", "with a variable"),
        ("orchestrate run tidy.yaml --detach", "in the background; prints the run's id"),
    ),
    "run-step": (
        ("orchestrate run-step Build --workflow release.yaml", "one step by itself"),
        ("orchestrate run-step Test --workflow release.yaml --from latest", "with earlier results"),
        ("orchestrate run-step Review --run latest", "a repaired prompt, beside the run"),
    ),
    "runs": (
        ("orchestrate runs --fleet", "all runs of the server and machines of fleet.yaml"),
        ("orchestrate runs", "the newest twenty"),
        ("orchestrate runs --status failed --status paused", "what needs attention"),
        ("orchestrate runs --limit 0 --json", "all of them for a script"),
    ),
    "schema": (
        ("orchestrate schema", "the names"),
        ("orchestrate schema machine > schemas/machine.schema.json", "one for an editor"),
    ),
    "seat": (("orchestrate seat list", "what `runs` asks a machine over ssh"),),
    "serve": (
        ("orchestrate serve --open", "the runs of this workspace, in the browser"),
        ("orchestrate serve --link", "sign another browser in"),
        ("orchestrate serve --read-only --workspace ../other", "look at two, change nothing"),
    ),
    "status": (
        ("orchestrate status latest", "how it stands, and the command to go on"),
        ("orchestrate status latest --json", "all of its state for a script"),
        ("orchestrate status latest --watch", "live, until it ends"),
    ),
    "stop": (("orchestrate stop latest", "as Ctrl-C where it runs; resume goes on"),),
    "validate": (
        ("orchestrate validate workflows/*.yaml", "every mistake, each at its place"),
        ("orchestrate validate --all --strict", "all recipes here; warnings count"),
        ("orchestrate validate --all --format github", "annotations for a pull request"),
    ),
    "wait": (
        ("orchestrate wait latest", "until it ends, with its exit code"),
        ("orchestrate wait latest --timeout 3600 --json", "at most an hour; how it stands then"),
    ),
    "watch": (
        ("orchestrate watch workflows/release.yaml", "run it again after each change"),
        ("orchestrate watch workflows/release.yaml --validate", "only check it"),
    ),
    "diff": (
        ("orchestrate diff latest", "all that the latest run changed"),
        ("orchestrate diff latest fix --files", "the files that one step changed"),
        ("orchestrate diff latest plan..fix", "from one step to another"),
    ),
    "rewind": (
        ("orchestrate rewind latest fix", "files and run stand before `fix`"),
        ("orchestrate rewind latest fix@2 --yes", "before its second visit, without a question"),
        ("orchestrate rewind latest --undo", "take that back"),
    ),
    "worker": (
        (
            "orchestrate worker --pools web,gpu --root /srv/orchestrate",
            "take runs of two pools, four at once",
        ),
        ("orchestrate worker --pools web --slots 1 --root ~/seats --name b", "a second one, here"),
    ),
    "why": (
        ("orchestrate why latest", "why each step ran, was reused or waits"),
        ("orchestrate why latest review --json", "one step: what changed, with both values"),
    ),
}
