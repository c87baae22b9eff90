"""The state of a run, state.json: the run, its loops, machines, stages and gates."""

from definitions.parts import (
    CHECKSUM,
    RUN_ID,
    TIMESTAMP,
    Schema,
    choice,
    count,
    document,
    field,
    filled,
    flag,
    free,
    listing,
    mapping,
    record,
    ref,
    text,
)
from definitions.state_steps import STEP_DEFINITIONS

_HASH = "sha256:" + "0123456789abcdef" * 4
_WHOLE: Schema = {"type": "integer", "minimum": 0}


def _moment(description: str, example: str = "2025-01-15T14:30:22Z") -> Schema:
    return text(f"{description} (ISO 8601, UTC).", example, pattern=TIMESTAMP)


LOOP_PROGRESS = record(
    {
        "items": field("The items as they were when the loop opened.", ["a.txt"], type="array"),
        "completed_indices": listing(
            "The positions of finished items, from 0.", _WHOLE, [0, 1], uniqueItems=True
        ),
        "current_index": field(
            "The item at work; null between items and when several run at once.",
            1,
            None,
            type=["integer", "null"],
            minimum=0,
        ),
    },
    "items",
    "completed_indices",
    title="Loop progress",
    extensible=True,
)

MACHINE = record(
    {
        "recipeId": filled("The recipe that runs now.", "implement-and-review"),
        "currentStep": filled("The step last entered.", "code-review"),
        "stepCount": count("Steps so far, the current one included.", 1, minimum=0),
        "stepVisitCounts": mapping(
            "How often each step was entered.", _WHOLE, {"implement": 1, "code-review": 2}
        ),
        "stepRetryCounts": mapping(
            "Reminders sent to each step for an unreadable outcome; back to 0 on a new visit.",
            _WHOLE,
            {"code-review": 1},
        ),
        "startTime": count(
            "When the recipe began, in milliseconds since 1970.", 1736951422000, minimum=0
        ),
        "sessionCreated": flag("Whether the agent's session exists, so that it is resumed."),
        "sessionId": field(
            "The agent's session; null before it is known.",
            "550e8400-e29b-41d4-a716-446655440000",
            None,
            type=["string", "null"],
        ),
        "restarts": count("How often restart-new-session was taken.", 0, minimum=0),
        "limits": field(
            "The guardrails that hold, flags included: maxStepVisits, maxTotalSteps, maxRestarts; "
            "null means no bound.",
            {"maxStepVisits": 3, "maxTotalSteps": 100, "maxRestarts": None},
            type="object",
        ),
    },
    "recipeId",
    "currentStep",
    "stepCount",
    "stepVisitCounts",
    "stepRetryCounts",
    "startTime",
    "sessionCreated",
    title="Machine",
    description="Where a machine run stands.",
    extensible=True,
)

STAGE = record(
    {
        "name": filled("The stage's name.", "planning"),
        "status": choice(
            "How far the stage is.",
            "pending",
            "running",
            "paused",
            "completed",
            "failed",
            "skipped",
        ),
        "started_at": _moment("When its first step began"),
        "completed_at": _moment("When its last step ended"),
    },
    "name",
    "status",
    title="Stage",
    extensible=True,
)

APPROVAL = record(
    {
        "stage": filled("The stage whose gate this is.", "planning"),
        "status": choice(
            "The decision, or pending; expired if the recipe that asked ran out of time.",
            "pending",
            "approved",
            "denied",
            "expired",
        ),
        "prompt": text("The question, with its variables filled in.", "Apply the fixes?"),
        "requested_at": _moment("When the run arrived at the gate"),
        "expires_at": field(
            "When `default` applies; null for never.",
            "2025-01-15T15:30:22Z",
            None,
            type=["string", "null"],
            pattern=TIMESTAMP,
        ),
        "default": choice("The decision if no answer comes in time.", "approve", "deny"),
        "decided_at": _moment("When it was decided"),
        "decided_by": text("Who decided: a person's name, or `timeout`.", "timeout"),
        "message": text("What was said with the decision.", "Only the patch release, please."),
    },
    "stage",
    "status",
    title="Approval",
    description="One visit of one gate; decided once.",
    extensible=True,
)

SKIPPED_STEP = record(
    {
        "id": filled("The step that was skipped.", "critical-fix"),
        "reason": filled("Why.", "condition evaluated to false"),
        "condition": text("The condition that did not hold.", "{{severity}} == 'critical'"),
    },
    "id",
    "reason",
    title="Skipped step",
    extensible=True,
)

_RUN: dict[str, Schema] = {
    "schema_version": choice(
        "The format of this file: 1.1.1 for workflows of version 1.1 and 1.1.1, else 1.3.",
        "1.1.1",
        "1.3",
    ),
    "run_id": text(
        "The run's id, also the name of its folder.", "20250115T143022Z-a3f8c2", pattern=RUN_ID
    ),
    "dialect": choice("The language of the definition.", "machine", "recipe", "workflow"),
    "workflow_file": filled("The file that was run.", "workflows/pipeline.yaml"),
    "workflow_checksum": text(
        "A checksum over every file that went into the plan; `resume` compares it.",
        _HASH,
        pattern=CHECKSUM,
    ),
    "sources": mapping(
        "The checksum of each file that went into the plan, so that a changed one can be named.",
        {"type": "string", "pattern": CHECKSUM},
        {"workflows/pipeline.yaml": _HASH},
    ),
    "started_at": _moment("When the run began"),
    "updated_at": _moment("When this file was last brought up to date"),
    "completed_at": _moment("When the run ended"),
    "rehearsal": flag("The run was a rehearsal: no agent was asked."),
    "run_step": filled("The one step that `run-step` ran.", "build"),
    "status": choice(
        "How the run stands. `paused` waits for a person.",
        "running",
        "paused",
        "completed",
        "failed",
        "cancelled",
    ),
    "reason": field(
        "Why the run stands so: an exit reason, a limit, an error; null while it just runs.",
        "changes-committed",
        None,
        type=["string", "null"],
    ),
}

_CONTENT: dict[str, Schema] = {
    "context": free("The context variables as they are now.", {"dataset": "customer_2024"}),
    "outputs": free("What the file's `outputs` came to, at the end.", {"summary": "all good"}),
    "outputs_undefined": mapping(
        "Outputs that have no value, and why.",
        {"type": "string"},
        {"summary": "undefined variable: {{summary}}"},
    ),
    "steps": mapping(
        "The result of each step by name; of a loop, a list with one map of results per item.",
        ref("entry"),
        {
            "ListTasks": {"status": "completed", "exit_code": 0, "lines": ["a.task"]},
            "ShowTasks": [{"Show": {"status": "completed", "exit_code": 0}}],
        },
    ),
    "for_each": mapping(
        "How far each loop is, by step name.",
        ref("loop_progress"),
        {"ShowTasks": {"items": ["a", "b"], "completed_indices": [0], "current_index": 1}},
    ),
    "machine": field(
        "Where a machine run stands; only in machine runs.",
        {
            "recipeId": "review-and-commit",
            "currentStep": "fix",
            "stepCount": 2,
            "stepVisitCounts": {"code-review": 1, "fix": 1},
            "stepRetryCounts": {},
            "startTime": 1736951422000,
            "sessionCreated": True,
        },
        ref="machine",
    ),
    "stages": listing(
        "The stages in order; only in recipe runs.",
        ref("stage"),
        [{"name": "planning", "status": "completed"}],
    ),
    "approvals": listing(
        "The gates that were reached, oldest first; only in recipe runs.",
        ref("approval"),
        [{"stage": "planning", "status": "pending", "prompt": "Go on?", "default": "deny"}],
    ),
    "skipped_steps": listing(
        "The steps that were skipped and why; only in recipe runs.",
        ref("skipped_step"),
        [{"id": "critical-fix", "reason": "condition evaluated to false"}],
    ),
    "seq": count(
        "The number of the last event of events.jsonl that is folded in here.", 42, minimum=0
    ),
    "checksum": text("A checksum over the rest of this file.", _HASH, pattern=CHECKSUM),
}

ROOT = record(
    _RUN | _CONTENT,
    "schema_version",
    "run_id",
    "workflow_file",
    "workflow_checksum",
    "started_at",
    "updated_at",
    "status",
    "context",
    "steps",
    extensible=True,
)

SCHEMA = document(
    "state",
    "orchestrate run state",
    "What a run has done so far, in the run's folder as state.json. Valid at any moment; newer "
    "versions may add keys.",
    ROOT,
    STEP_DEFINITIONS
    | {
        "loop_progress": LOOP_PROGRESS,
        "machine": MACHINE,
        "stage": STAGE,
        "approval": APPROVAL,
        "skipped_step": SKIPPED_STEP,
    },
)
