"""The user's fleet.yaml: the server, the timing, and pools of machines."""

from definitions.parts import (
    VARIABLE,
    count,
    document,
    duration,
    field,
    filled,
    flag,
    listing,
    mapping,
    record,
    ref,
    text,
    whole,
)

# No option of ssh, and nothing that a shell or git would take for something else.
_HOST = whole("[A-Za-z0-9_][A-Za-z0-9_.@-]*")
_ADDRESS = whole("(?:\\[[0-9A-Fa-f:.]+\\]|[A-Za-z0-9_.-]+):[0-9]{1,5}")

POOL = record(
    {
        "ssh": listing(
            "The machines, as `ssh` knows them; orchestrate has to be on the PATH of each.",
            {"type": "string", "pattern": _HOST, "x-hint": "a name of ~/.ssh/config, or USER@HOST"},
            ["host-a", "me@host-b"],
            minItems=1,
        ),
        "root": filled(
            "With `ssh`: the folder there that holds mirrors, seats and run folders; a relative "
            "path begins at the home folder. Default: orchestrate-seats.",
            "/srv/orchestrate",
            default="orchestrate-seats",
        ),
        "slots": count(
            "With `ssh`: how many runs may work on a machine at once. Default: 4.",
            4,
            default=4,
            minimum=1,
        ),
        "prepare": listing(
            "A command that makes what git does not carry, such as installed packages; it runs in "
            "the new seat before the run. Default: none.",
            {"type": "string"},
            ["npm", "ci"],
            default=[],
        ),
    },
    title="Pool",
    description="Machines that are alike.",
) | {
    "if": {"anyOf": [{"required": ["root"]}, {"required": ["slots"]}]},
    "then": {"required": ["ssh"]},
}

TLS = record(
    {
        "ca": filled("The certificates that the server's is checked against.", "ca.pem"),
        "cert": filled("The client's certificate.", "client.pem"),
        "key": filled("The key of the client's certificate.", "client.key"),
        "server_name": filled("The name in the server's certificate.", "temporal.example"),
    },
)

TIMING = record(
    {
        "lease": duration("How long a machine works without an answer of the server.", 60),
        "grace": duration("How long a sitting that is ended may take.", 20),
        "beat": duration("How often a machine is heard of.", 10),
        "heartbeat_timeout": duration(
            "After so long a silence the server takes a sitting for fallen; at least lease + grace "
            "+ 2 beats + 5 % of the lease.",
            110,
        ),
        "lost_after": duration("How long a silent machine is awaited then.", 600),
    },
)

ROOT = record(
    {
        "address": text(
            "The Temporal server. Default: 127.0.0.1:7233.",
            "temporal.example:7233",
            default="127.0.0.1:7233",
            pattern=_ADDRESS,
            hint="write HOST:PORT",
        ),
        "namespace": filled("Its namespace. Default: default.", "default", default="default"),
        "tls": field(
            "TLS, with files relative to this one; `{}` checks by the system's roots.",
            {"ca": "ca.pem"},
            ref="tls",
        ),
        "api_key_env": text(
            "The environment variable that has the API key; then TLS is used.",
            "TEMPORAL_API_KEY",
            pattern=VARIABLE,
        ),
        "insecure": flag(
            "Speak plain text with a server on another computer. Default: false.", default=False
        ),
        "keys": filled(
            "The file with the keys that encrypt what the server and the git remote hold: a line "
            "`ID HEX64` for each, the first encrypts, all decrypt. Needed unless the server is on "
            "this computer.",
            "fleet.keys",
        ),
        "remote": filled(
            "The git remote that carries workspaces and runs: its name in the workspace, or a URL.",
            "origin",
        ),
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
        "timing": field("When a silent machine counts as lost.", {"lease": 60}, ref="timing"),
        "pools": mapping(
            "The pools by name; one of a server needs an entry only for `prepare`.",
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
    {"pool": POOL, "tls": TLS, "timing": TIMING},
    examples=(
        {"pools": {"desk": {"ssh": ["host-a", "host-b"], "slots": 2}}},
        {"address": "temporal.example:7233", "tls": {}, "keys": "fleet.keys", "remote": "origin"},
    ),
)
