"""The user's fleet.yaml: pools of machines."""

from definitions.parts import count, document, field, filled, listing, mapping, record, ref, whole

# No option of ssh, and nothing that a shell or git would take for something else.
_HOST = whole("[A-Za-z0-9_][A-Za-z0-9_.@-]*")

POOL = record(
    {
        "ssh": listing(
            "The machines, as `ssh` knows them; orchestrate has to be on the PATH of each.",
            {"type": "string", "pattern": _HOST, "x-hint": "a name of ~/.ssh/config, or USER@HOST"},
            ["host-a", "me@host-b"],
            minItems=1,
        ),
        "root": filled(
            "The folder there that holds mirrors, seats and run folders; a relative path begins at "
            "the home folder. Default: orchestrate-seats.",
            "/srv/orchestrate",
            default="orchestrate-seats",
        ),
        "slots": count(
            "How many runs may work on a machine at once. Default: 4.", 4, default=4, minimum=1
        ),
        "prepare": listing(
            "A command that makes what git does not carry, such as installed packages; it runs in "
            "the new seat before the run. Default: none.",
            {"type": "string"},
            ["npm", "ci"],
            default=[],
        ),
    },
    "ssh",
    title="Pool",
    description="Machines that are alike.",
)

ROOT = record(
    {
        "publish": field(
            "When a run there publishes what it has made: after each `step`, at each `gate` only, "
            "or after agents' steps and gates and else at most this often. Default: 30s.",
            "30s",
            "step",
            "gate",
            default="30s",
            type="string",
            pattern=whole("step|gate|(?=[0-9])(?:[0-9]+h)?(?:[0-9]+m)?(?:[0-9]+s)?"),
            hint="write step, gate or a duration such as 30s",
        ),
        "pools": mapping(
            "The pools by name.",
            ref("pool"),
            {"desk": {"ssh": ["host-a"]}},
            propertyNames={"minLength": 1},
        ),
    },
)

SCHEMA = document(
    "fleet",
    "orchestrate fleet",
    "Machines that runs can be sent to with `run --fleet POOL`: the user's fleet.yaml.",
    ROOT,
    {"pool": POOL},
    examples=({"pools": {"desk": {"ssh": ["host-a", "host-b"], "slots": 2}}},),
)
