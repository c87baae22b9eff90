"""More recipes to be killed: limits that hold over restarts, and calls that tell no tokens."""

from __future__ import annotations

from tests.recipes.fakes import recipe, rule
from tests.recipes.sweeping import DONE, Shape

_PAID = {**DONE, "cost": 0.4}
_ENOUGH = {**_PAID, "text": '{"outcome": "other", "otherDescription": "enough"}'}
RESTARTS = Shape(
    "restarts",
    recipe("steps: [{id: call, type: recipe, recipe: again}]"),
    # run, and a resume that may spend more
    changes=(160, 130),
    flags=("--max-restarts", "9"),
    files={
        ".orchestrate/recipes/again.yaml": """
id: again
label: Again
description: Begins anew until there was enough
limits: {cost_usd: 1}
initialStep: one
steps:
  one:
    prompt: "STEP:one"
    outcomes: [complete, other]
    onOutcome:
      complete: {action: restart-new-session, recipeId: again}
      other: {action: exit, reason: enough}
""",
    },
    answers=(rule("STEP", _PAID, _PAID, _PAID, _ENOUGH),),
    wider=("--max-cost", "20"),
    most_paid=2,
)

# Each counts as the guess of 100,000 tokens.
SILENT = Shape(
    "silent",
    recipe("""
        limits: {tokens: 450000}
        context: {items: [i1, i2, i3, i4, i5, i6, i7]}
        outputs: {all: "{{all}}"}
        steps:
          - {id: each, foreach: "{{items}}", parallel: true, agent: helper,
             prompt: "STEP:{{item}}", collect: all}
    """),
    changes=(200, 150),
    answers=(rule("STEP", {"tells_tokens": False, "delay": 0.04}),),
    wider=("--max-tokens", "2000000"),
    most_paid=4,
)
