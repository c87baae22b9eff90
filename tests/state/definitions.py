"""Small definitions in every dialect, for tests that fold events."""

from __future__ import annotations

from tests.machines.fakes import machine
from tests.recipes.fakes import recipe


def workflow(steps: str, head: str = "") -> str:
    return f'version: "1.1"\nname: trial\n{head}steps:\n{steps}'


def command(name: str, more: str = "") -> str:
    return f'  - {{name: {name}, command: ["true"]{more}}}\n'


LINE = workflow(command("One") + command("Two"))
LENIENT = workflow(command("One") + command("Two"), "strict_flow: false\n")
JUMPS = workflow(
    command("Check", ", on: {failure: {goto: Mend}, success: {goto: _end}}")
    + command("Mend", ", on: {success: {goto: Check}}")
)
LOOP = workflow(
    """\
  - name: Loop
    for_each:
      items: [a, b, c]
      steps:
        - {name: In, command: ["true"]}
        - {name: Out, command: ["true"], on: {failure: {goto: After}}}
"""
    + command("After")
)
MOVING = workflow(
    """\
  - name: Loop
    for_each:
      items: [a.txt, b.txt]
      on_item_complete: {success: {move_to: done}, failure: {move_to: failed}}
      steps: [{name: In, command: ["true"]}]
"""
).replace('"1.1"', '"1.2"')
MACHINE = machine(
    {
        "plan": {"good": "work", "bad": "!impossible", "again": "plan"},
        "work": {"good": "!finished", "bad": "plan", "fresh": "@trial"},
    }
)
GATED = recipe("""
    stages:
      - name: planning
        steps: [{id: a, agent: helper, prompt: "a", output: found}]
        approval: {required: true, prompt: "Go on?", timeout: 60, default: deny}
      - name: doing
        steps: [{id: b, agent: helper, prompt: "b {{found}}"}]
""")
CONTINUES = recipe("""
    steps:
      - {id: a, agent: helper, prompt: "a", on_error: continue}
      - {id: b, agent: helper, prompt: "b", condition: "{{go}} == 'yes'"}
      - {id: c, agent: helper, prompt: "c", on_error: skip_remaining}
      - {id: d, agent: helper, prompt: "d"}
""").replace("steps:", "context: {go: 'yes'}\nsteps:", 1)
PARALLEL = recipe("""
    context: {items: [x, y, z]}
    steps:
      - {id: each, foreach: "{{items}}", parallel: true, agent: helper, prompt: "p", collect: all}
      - {id: after, agent: helper, prompt: "after"}
""")
CALLING = recipe("""
    steps:
      - {id: call, type: recipe, recipe: child.yaml, context: {item: z}, output: once,
         timeout: 60, retry: {max_attempts: 2, initial_delay: 5}}
      - {id: after, agent: helper, prompt: "after"}
""")
CHILD = recipe(
    """
    context: {item: ""}
    steps:
      - {id: one, agent: helper, prompt: "one", output: found}
      - {id: each, foreach: "{{item}}", agent: helper, prompt: "p", collect: all}
""",
    name="child",
)
