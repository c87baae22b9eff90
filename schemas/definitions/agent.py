"""The front matter of an agent definition file."""

from definitions.parts import document, field, filled, record, text, whole

_NAME = whole("[A-Za-z0-9_-]+(?::[A-Za-z0-9_-]+)*")

ROOT = record(
    {
        "name": text(
            "The agent's name, as recipes write it. Default: the file's name.",
            "code-reviewer",
            "security:auditor",
            pattern=_NAME,
            hint="use letters, digits, - and _: code-reviewer",
        ),
        "description": text(
            "What the agent is good at, in a sentence.", "Finds security problems in Python code"
        ),
        "model": filled(
            "The model tier or a model name of the agent's own. Default: the run's.",
            "sonnet",
            "opus",
            "inherit",
        ),
        "tools": field(
            "The tools the agent may use: a list, or names separated by commas. Default: all.",
            ["Read", "Grep", "Bash"],
            "Read, Grep, Bash",
            type=["array", "string"],
            items={"type": "string", "minLength": 1},
        ),
        "backend": filled(
            "The program that plays this agent. Default: the run's.", "claude-code", "codex"
        ),
    },
)

SCHEMA = document(
    "agent",
    "orchestrate agent definition",
    "The lines between the --- marks of .orchestrate/agents/NAME.md; the text below them is the "
    "agent's system prompt.",
    ROOT,
    examples=({"name": "code-reviewer", "description": "Reviews changes", "tools": ["Read"]},),
)
