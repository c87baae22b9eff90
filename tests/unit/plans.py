"""A program that uses every op, target, agent and expression at least once."""

from __future__ import annotations

from orchestrate.diagnostics import Span
from orchestrate.plan.data import Capture, Environment, FileNeeds, FileText, Inject, Require
from orchestrate.plan.expr import (
    Chain,
    Compare,
    Const,
    Exists,
    ListExpr,
    MapExpr,
    Not,
    Ref,
    Text,
    Truth,
)
from orchestrate.plan.nodes import (
    APPROVED,
    DENIED,
    FAILED,
    INVALID,
    LOST,
    OK,
    SKIPPED,
    Abort,
    Ask,
    Block,
    BuiltinProvider,
    Call,
    CommandTemplate,
    Each,
    Finish,
    Gate,
    Goto,
    ItemMoves,
    Leave,
    NamedAgent,
    Node,
    Plan,
    Program,
    Restart,
    Run,
    RunAgent,
    SourceFile,
    Target,
    Wait,
)
from orchestrate.plan.settings import Defaults, Folders, Limits, Retry, Secret

HERE = Span("all.yaml", 3, 5, 4)
ITEM = Ref(("item",), "${item}")
NOTES = Ref(("var", "notes", "level"), "{{notes.level?}}", optional=True)
DONE = Finish("completed")


def tried(ok: Target, failed: Target, name: str) -> tuple[tuple[str, Target], ...]:
    return ((OK, ok), (FAILED, failed), (LOST, Goto(name)))


def failed(name: str) -> Abort:
    return Abort("failed", f"step '{name}' failed")


def workflow_plan() -> Plan:
    list_files = Node(
        "List", "List",
        Run(
            (Text(("sh",)), Text(("-c",)), Text(('first "${V0}"\nsecond',))),
            values=(("V0", Text((ITEM,))),),
            stdin=FileText(Text(("in.txt",))),
            capture=Capture("json", True, Text(("s.json",)),
                            (Require("/a", False, True, None, "string"),), Text(("out.txt",))),
            environment=Environment((("A", "b c"),), ("TOKEN",)),
        ),
        tried(Goto("Loop"), failed("List"), "List"), Goto("Loop"), HERE,
        needs=FileNeeds((Text(("a/*.md",)),), (Text(("b", ITEM)),),
                        Inject("content", "Read:", "append", sections=True)),
        retry=Retry(3, 0.5, "any", "exponential", 60.0, jitter=True), timeout_s=12.5,
    )  # fmt: skip
    loop = Node(
        "Loop", "Loop",
        Each(ListExpr((Const("x"), Const(2), Const(None), MapExpr((("k", Const(True)),)))),
             "item", "Loop/", stop_on_failure=True,
             moves=ItemMoves(Text(("ok",)), Text(("bad",)))),
        ((OK, Goto("Wait")), (FAILED, Goto("Wait"))), Goto("Wait"), HERE, on_failure="handled",
    )  # fmt: skip
    ask = Node(
        "Loop/Ask", "Ask",
        Ask(CommandTemplate("mine", (Text(("run",)), Text((Ref(("prompt",), "${PROMPT}"),))),
                            "argv", MapExpr((("model", Text(("m", ITEM))),))),
            FileText(Text(("p.md",))), "fresh"),
        tried(Goto("Loop/Other"), Leave(FAILED), "Loop/Ask"), Goto("Loop/Other"), HERE,
        role="engineer",
    )  # fmt: skip
    other = Node(
        "Loop/Other", "Other",
        Ask(BuiltinProvider("claude", MapExpr((("a", Const(1)),))), Text(("Hi",)), "fresh"),
        tried(Leave(OK), Leave(FAILED), "Loop/Other"), Leave(OK), HERE,
    )  # fmt: skip
    wait = Node(
        "Wait", "Wait", Wait(Text(("*.x",)), 9.0, 250, 2),
        ((OK, DONE), (FAILED, DONE), (SKIPPED, DONE)), DONE, HERE,
        guard=Exists(Text(("*.y",)), negated=True), on_failure="tolerate",
    )  # fmt: skip
    body = Block("Loop/", "Loop/Ask", (ask, other), "Loop")
    return Plan(
        "w.yaml", "workflow", "w", "", "", "1.3",
        (Block("main", "List", (list_files, loop, wait)), body),
        Limits(), context=MapExpr((("who", Const("me")), ("n", Const(1.5)))), folders=Folders(),
    )  # fmt: skip


def recipe_plan() -> Plan:
    call = Node(
        "call", "call", Call("machine.yaml", MapExpr((("x", NOTES),)), 3, 9),
        ((OK, Goto("gate")), (FAILED, Finish("partial", "partial")), (SKIPPED, Goto("gate"))),
        Goto("gate"), HERE,
        guard=Chain(Compare(NOTES, "==", Const("high")),
                    (("or", Compare(NOTES, "!=", Const("low"))), ("and", Not(Truth(NOTES))))),
        after=("ask",), output="result", stage="one", on_failure="handled",
    )  # fmt: skip
    ask = Node(
        "ask", "ask",
        Ask(NamedAgent("a:b", MapExpr((("k", Const(0)),))), Text(("One\nTwo ", NOTES)), "fresh"),
        tried(Goto("call"), failed("ask"), "ask"), Goto("call"), HERE, stage="one", on_lost="stop",
    )  # fmt: skip
    gate = Node(
        "gate", "one", Gate("one", Text(("Go?",)), None, "deny"),
        ((APPROVED, Goto("late")), (DENIED, Abort("denied", "no"))), Goto("late"), HERE,
        stage="one",
    )  # fmt: skip
    late = Node(
        "late", "late", Call(Text(("sub/", NOTES)), MapExpr()),
        ((OK, DONE), (FAILED, failed("late"))), DONE, HERE, stage="two",
    )  # fmt: skip
    return Plan(
        "r.yaml", "recipe", "r", "r", "about", "1.0.0",
        (Block("main", "ask", (ask, call, gate, late)),),
        Limits(max_depth=5, max_steps=100), Defaults(timeout_s=600.0),
        secrets=(Secret("NPM_TOKEN", HERE), Secret("GH_TOKEN", HERE)),
    )  # fmt: skip


def machine_plan() -> Plan:
    node = Node(
        "go", "go", Ask(RunAgent(), Text(("Go.",)), "shared", ("again", "done"), "opus"),
        (
            ("again", Restart("machine.yaml")), ("done", Finish("done", "exit")),
            (INVALID, Abort("orchestration-error", "orchestration-error")),
            (FAILED, Abort("agent", "failed")), (LOST, Goto("go")),
        ),
        Finish("", "exit"), HERE,
    )  # fmt: skip
    return Plan(
        "machine.yaml", "machine", "m", "M", "about", "", (Block("main", "go", (node,)),),
        Limits(max_visits=3, max_steps=100), Defaults(model="haiku", timeout_s=86400.0),
        exit_on_other=False,
    )  # fmt: skip


def every_kind() -> Program:
    return Program(
        "w.yaml",
        (machine_plan(), workflow_plan(), recipe_plan()),
        (SourceFile("w.yaml", "0123456789abcdef" * 4),),
    )
