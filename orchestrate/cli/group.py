"""The commands by name, each imported when it is called (ADR 0006).

So `--help` and completion load no compiler code. What `--help` says about a command therefore
stands in the table here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from orchestrate import __version__
from orchestrate.errors import UsageError
from orchestrate.exits import DONE, UNUSABLE
from orchestrate.show.output import note

# name -> module of `cli.commands` and attribute, summary
COMMANDS: dict[str, tuple[str, str]] = {
    "answer": ("inbox:answer", "Answer a question of the inbox."),
    "approvals": ("approvals:approvals", "List the gates that wait for a decision."),
    "approve": ("approvals:approve", "Approve a stage, so that its run can continue."),
    "attach": ("attach:attach", "Watch a run that another process works on."),
    "cancel": ("cancel:cancel", "End a run for good."),
    "clean": ("clean:clean", "Remove old runs."),
    "completion": ("completion:completion", "Print the completion script of a shell."),
    "config": ("config:config", "Show the settings in effect, and where each comes from."),
    "cost": ("cost:cost", "Sum up what agents have cost."),
    "deny": ("approvals:deny", "Deny a stage, which ends its run."),
    "describe": ("describe:describe", "Say what a recipe does, what it takes and gives."),
    "diff": ("diff:diff", "Show what a step or a run changed, or how two runs differ."),
    "doctor": ("doctor:doctor", "Check whether this computer has what runs need."),
    "fetch": ("fetch:fetch", "Bring a run of another machine here."),
    "fleet": ("fleet:fleet", "Check the machines and the server of fleet.yaml."),
    "fork": ("fork:fork", "Go another way from a step of a run, in a new run."),
    "guide": ("guide:guide", "Print how to write recipes, for a coding agent."),
    "inbox": ("inbox:inbox", "List what waits for you, in all workspaces."),
    "init": ("init:init", "Write a first recipe and settings into a project."),
    "list": ("list:list_recipes", "List the recipes of the workspace and the catalogue."),
    "logs": ("logs:logs", "Show the log of a run or of a step."),
    "plan": ("plan:plan", "Show what a recipe compiles to, or the path of a run."),
    "report": ("report:report", "Write a report of a run, as HTML or Markdown."),
    "resume": ("resume:resume", "Continue a run that was stopped, failed or parked."),
    "rewind": ("rewind:rewind", "Put a run and its files back to before a step."),
    "run": ("run:run", "Run a recipe."),
    "run-step": ("run_step:run_step", "Run a single step of a workflow."),
    "runs": ("runs:runs", "List the runs of the workspace."),
    "schema": ("schema:schema", "Print a JSON Schema, for editors and other tools."),
    "seat": ("seat:seat", "Take runs from other machines, over ssh."),
    "serve": ("serve:serve", "Show and steer runs in a browser or on a phone."),
    "status": ("status:status", "Show where a run stands, and how to continue it."),
    "stop": ("stop:stop", "Stop a run, so that it can be resumed."),
    "validate": ("validate:validate", "Check recipes without running anything."),
    "wait": ("wait:wait", "Wait until a run ends."),
    "watch": ("watch:watch", "Run a recipe again whenever one of its files changes."),
    "worker": ("worker:worker", "Serve pools of a fleet on this machine."),
    "why": ("why:why", "Say why a step ran, ran again, was reused or waits."),
}


def command_named(name: str) -> click.Command:
    """Import a command."""
    from importlib import import_module

    module, _, attribute = COMMANDS[name][0].partition(":")
    command: click.Command = getattr(import_module(f"orchestrate.cli.commands.{module}"), attribute)
    return command


class LazyGroup(click.Group):
    """A group whose commands are named in `COMMANDS` and imported on demand."""

    # The signatures are click's.

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = command_named(cmd_name)
        # On the instance, so that commands need not know of it.
        setattr(command, "format_epilog", partial(_write_examples, cmd_name))  # noqa: B010
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from orchestrate.diagnostics import closest

            near = closest(args[0], COMMANDS)
            also = f" (did you mean '{near}'?)" if near else ""
            ctx.fail(f"there is no command '{args[0]}'{also}")
        return super().resolve_command(ctx, args)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def format_epilog(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        with formatter.section("First steps"):
            formatter.write_dl(
                [
                    ("orchestrate init", "a first recipe in this folder"),
                    ("orchestrate run my-machine --backend rehearsal", "run it without an agent"),
                    ("orchestrate COMMAND --help", "flags and examples of a command"),
                ]
            )


def _write_examples(name: str, _: click.Context, formatter: click.HelpFormatter) -> None:
    """What people do with the command, each line above the words about it."""
    from orchestrate.cli.help_examples import EXAMPLES

    with formatter.section("Examples"):
        for line, about in EXAMPLES.get(name, ()):
            # Not wrapped: a line is there to be copied.
            formatter.write(f"{'':{formatter.current_indent}}{line}\n")
            formatter.write(f"{'':{formatter.current_indent}}    {about}\n")


@click.group(
    cls=LazyGroup,
    # Without a command click 8.1 exits with 0 and later releases with 2; so we answer ourselves.
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Compile and run YAML recipes that drive coding agents and commands.",
)
@click.version_option(__version__, prog_name="orchestrate")
@click.pass_context
def root(ctx: click.Context) -> int:
    """What all commands share: nothing, except that there must be one."""
    if ctx.invoked_subcommand is None:
        note(ctx.get_help() + "\n")
        return UNUSABLE
    return DONE


def invoke(ctx: click.Context, name: str, **arguments: Any) -> int:
    """Let another command carry out what remains of this one; it is loaded only then."""
    command = root.get_command(ctx, name)
    assert command is not None
    code: int = ctx.invoke(command, **arguments)
    return code


def run_group(arguments: Sequence[str], settings: dict[str, Any]) -> int:
    """Run a command line; what click has to say against it becomes an error of ours."""
    words = list(arguments)
    if words[:1] == ["help"]:  # as in git and many others
        words = [*words[1:2], "--help"]
    try:
        result = root.main(words, prog_name="orchestrate", standalone_mode=False, obj=settings)
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        # What stands after the fault was not read; that the answer is for a program holds.
        end = words.index("--") if "--" in words else len(words)
        settings["json"] = settings["json"] or "--json" in words[:end]
        raise UsageError(_message(error), _usage_hint(error)) from None
    return result if isinstance(result, int) else DONE


def _message(error: click.ClickException) -> str:
    """What click says, on one line, and the choice that was probably meant."""
    if isinstance(error, click.NoSuchOption):
        return _no_such_option(error)
    message = " ".join(error.format_message().split())
    param = error.param if isinstance(error, click.BadParameter) else None
    if param is not None and isinstance(param.type, click.Choice):
        import re

        from orchestrate.diagnostics import closest

        given = re.match(r"'(.*)' is not one of", error.message)
        near = closest(given[1], param.type.choices) if given is not None else ""
        return f"{message.rstrip('.')} (did you mean '{near}'?)" if near else message
    return message


# Flags that people know from elsewhere, and what does it here.
_ELSEWHERE = {("run", "--list"): "`orchestrate list` shows the recipes that can be run"}
_SYNONYMS = {
    "--agent": ("--backend",),
    "--budget": ("--max-cost",),
    "--cwd": ("--working-dir",),
    "--max-budget-usd": ("--max-cost",),
    "--max-turns": ("--max-calls",),
    "--provider": ("--backend",),
    "--timeout": ("--max-time", "--step-timeout"),
}


def _no_such_option(error: click.NoSuchOption) -> str:
    """Only the one flag that is near: click also names three that merely share some letters."""
    from orchestrate.diagnostics import closest

    name = error.option_name
    params = error.ctx.command.params if error.ctx is not None else []
    known = [word for param in params for word in (*param.opts, *param.secondary_opts)]
    meant = [word for word in _SYNONYMS.get(name, ()) if word in known]
    # Without the dashes, which are alike in all of them.
    near = closest(name.lstrip("-"), [word[2:] for word in known if word.startswith("--")])
    if near and not meant:
        meant = [f"--{near}"]
    also = f" (did you mean {' or '.join(map(repr, meant))}?)" if meant else ""
    command = error.ctx.info_name if error.ctx is not None else ""
    elsewhere = _ELSEWHERE.get((command or "", name), "")
    return f"there is no option '{name}'" + (f": {elsewhere}" if elsewhere else also)


def _usage_hint(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return ""
    lines = [" ".join(context.get_usage().split())]
    if isinstance(error, click.MissingParameter) and error.param is not None:
        if error.param.metavar == "RUN":
            lines.append("`latest` is the newest run; `orchestrate runs` lists them")
        elif error.param.metavar == "FILE|ID":
            lines.append("`orchestrate list` shows the recipes that have an id")
    return "\n".join([*lines, f"`{context.command_path} --help` explains it"])
