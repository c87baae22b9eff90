"""C's examples, as they stand in workflows/examples, run to their ends with agents that are fake.

The fakes really write the files that the prompts ask for, so that every later step finds them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.acceptance.fakes import REPOSITORY, Played, Stage

ARCHITECT_AND_ENGINEER = """
    def answer(prompt):
        if prompt == pathlib.Path("prompts/examples/design_system.md").read_text():
            for name in ("system_design", "api_spec"):
                pathlib.Path(f"artifacts/architect/{name}.md").write_text(f"# {name}")
            return "designed"
        pathlib.Path("src").mkdir(exist_ok=True)
        pathlib.Path(f"src/part_{number}.py").write_text("print('built')")
        return "implemented"
"""


def stage_for(tmp_path: Path) -> Stage:
    """A workspace with all prompts, schemas and examples of the repository."""
    stage = Stage(tmp_path)
    for folder in ("prompts", "workflows/examples"):
        shutil.copytree(REPOSITORY / folder, stage.folder / folder)
    (stage.folder / "schemas").mkdir()
    shutil.copy(REPOSITORY / "schemas/qa_verdict.schema.json", stage.folder / "schemas")
    return stage


def play(stage: Stage, example: str, *flags: str, exit_code: int = 0) -> Played:
    path = f"workflows/examples/{example}.yaml"
    return stage.look(stage.run("run", path, *flags).assert_exit(exit_code))


def prompt_text(stage: Stage, name: str) -> str:
    return (stage.folder / "prompts/examples" / f"{name}.md").read_text("utf-8")


def test_hello(tmp_path: Path) -> None:
    stage = stage_for(tmp_path)
    shutil.rmtree(stage.folder / "prompts")
    stage.write("docs/$(touch canary).md", "one two\nthree\n")
    stage.write("docs/long.md", "line\n" * 200)
    play(stage, "hello")
    report = (stage.folder / "artifacts/hello/report.md").read_text()
    assert "| docs/$(touch canary).md | 2 | 3 |\n" in report
    assert "| docs/long.md | 200 | 200 |\n| (long: worth splitting up?) | | |\n" in report
    assert not (stage.folder / "canary").exists()
    play(stage, "hello", "--context", "pattern=*.nothing")
    assert "no file matches *.nothing" in (stage.folder / "artifacts/hello/report.md").read_text()


def test_multi_agent_inbox(tmp_path: Path) -> None:
    stage = stage_for(tmp_path)
    stage.claude(ARCHITECT_AND_ENGINEER)
    played = play(stage, "multi_agent_inbox")
    stamp = played.state["run_id"].partition("-")[0]
    design, implement = (call.argv for call in stage.calls("claude"))
    assert design[2:] == ["--model", "opus", "--permission-mode", "acceptEdits"]
    assert implement[2:] == ["--model", "sonnet", "--permission-mode", "acceptEdits"]
    assert implement[1] == (
        "Your task, and the documents that it has to follow:\nRequired:\n"
        "- artifacts/architect/api_spec.md\n- artifacts/architect/system_design.md\n"
        "- inbox/engineer/implement.task\n\n" + prompt_text(stage, "implement_task")
    )
    # The empty inbox made a failure, the failure a task, and the task was worked off.
    assert os.listdir(stage.folder / "inbox/engineer") == []
    task = (stage.folder / f"processed/{stamp}_0/implement.task").read_text()
    assert "artifacts/architect/system_design.md" in task
    assert "inbox/engineer/implement.task" in (stage.folder / "inbox/qa/review_0.task").read_text()
    assert (stage.folder / "artifacts/engineer/log_0.md").read_text() == "implemented\n"
    status = json.loads((stage.folder / "artifacts/engineer/status_Implement_0.json").read_text())
    schema = json.loads((REPOSITORY / "schemas/status.schema.json").read_text())
    assert list(Draft202012Validator(schema).iter_errors(status)) == []
    assert status["run_id"] == played.state["run_id"]
    assert played.step("Finished")["status"] == "completed"
    assert "DesignMissing" not in played.state["steps"]


def test_multi_agent_inbox_several_tasks(tmp_path: Path) -> None:
    stage = stage_for(tmp_path)
    stage.claude(ARCHITECT_AND_ENGINEER)
    for name in ("b $(touch canary)", "a"):
        stage.write(f"inbox/engineer/{name}.task", name)
    stage.write("docs/coding_standards.md", "Be tidy.")
    played = play(stage, "multi_agent_inbox")
    assert [call.argv[0] for call in stage.calls("claude")] == ["-p"] * 3
    assert (
        "Optional (if available):\n- docs/coding_standards.md\n" in stage.calls("claude")[1].argv[1]
    )
    assert sorted(os.listdir(stage.folder / "inbox/qa")) == ["review_0.task", "review_1.task"]
    assert played.state["for_each"]["WorkThroughTasks"]["completed_indices"] == [0, 1]
    assert not (stage.folder / "canary").exists()


def test_multi_agent_inbox_without_a_design(tmp_path: Path) -> None:
    stage = stage_for(tmp_path)
    stage.claude("def answer(prompt): return 'I had no idea'")
    played = play(stage, "multi_agent_inbox", exit_code=1)
    assert played.step("DesignMissing")["exit_code"] == 1
    assert "WorkThroughTasks" not in played.state["steps"]


def test_multi_agent_inbox_with_a_failing_engineer(tmp_path: Path) -> None:
    stage = stage_for(tmp_path)
    failing = ARCHITECT_AND_ENGINEER.replace('return "implemented"', "sys.exit(1)")
    stage.claude(failing)
    played = play(stage, "multi_agent_inbox", exit_code=1)
    assert played.step("ImplementationFailed")["exit_code"] == 1
    assert os.listdir(stage.folder / "inbox/engineer") == ["implement.task"]


def test_file_dependencies(tmp_path: Path) -> None:
    stage = stage_for(tmp_path)
    stage.claude("""
        def answer(prompt):
            return "REPORT" if prompt.startswith("Write the report") else prompt[-40:]
    """)
    refused = play(stage, "file_dependencies", exit_code=1)
    assert refused.step("CheckInputs")["error"]["context"]["failed_deps"] == [
        "config/report.yaml", "config/rules/v2.md", "data/orders_2025/*.csv",
    ]  # fmt: skip
    assert stage.calls("claude") == []
    stage.write("config/report.yaml", "title: Orders")
    stage.write("config/rules/v2.md", "No negative prices.")
    for name in ("one", "two"):
        stage.write(f"data/orders_2025/{name}.csv", f"id,price\r\n1,{name}\r\n")
    played = play(stage, "file_dependencies")
    assert [len(list((stage.folder / d).iterdir())) for d in ("artifacts/tables", "temp")] == [2, 2]
    tables = {path.read_bytes() for path in (stage.folder / "artifacts/tables").iterdir()}
    assert tables == {b"id,price\n1,one\n", b"id,price\n1,two\n"}
    assert "artifacts/tables/1.csv" in (stage.folder / "artifacts/notes/table_1.md").read_text()
    assert "REPORT" in (stage.folder / "artifacts/reports/orders_2025.md").read_text()
    assert len(stage.calls("claude")) == 3
    assert played.state["status"] == "completed"


def test_injection_modes(tmp_path: Path) -> None:
    stage = stage_for(tmp_path)
    stage.claude("def answer(prompt): return prompt")
    files = {
        "src/b.py": "b", "src/a.py": "a", "tests/test_a.py": "t", "data/prices.csv": "p",
        "artifacts/architect/design.md": "d", "config/settings.json": '{"maxRetries": 3}\n',
        "data/figures/may.csv": "5\n",
    }  # fmt: skip
    for name, text in files.items():
        stage.write(name, text)
    played = play(stage, "injection_modes")

    def said(place: str) -> str:
        return (stage.folder / "artifacts" / place).read_text().rstrip("\n")

    review = prompt_text(stage, "review_files").rstrip("\n")
    assert said("review/quick.md") == (
        "The following files are required inputs for this task:\n- src/a.py\n- src/b.py\n\n"
        + review
    )
    assert said("engineer/build_log.md").startswith(
        "Build exactly what these design documents describe:\n"
    )
    assert "- artifacts/architect/design.md\n" in said("engineer/build_log.md")
    settings = said("settings/new_settings.json")
    head, _, tail = settings.partition('{"maxRetries": 3}\n')
    assert head.startswith("These are the settings to convert by the rules below:\n\n=== File: ")
    assert tail == "\n" + prompt_text(stage, "convert_settings").rstrip("\n")
    summary = said("reports/summary.md")
    assert summary.startswith(prompt_text(stage, "summary") + "\nFigures to refer to:\n\n=== File")
    assert said("review/full.md") == (
        "Review these files together, code and tests:\n"
        "- src/a.py\n- src/b.py\n- tests/test_a.py\n\n" + review
    )
    assert said("review/prices.md") == prompt_text(stage, "check_price_list").rstrip("\n")
    models = [call.argv[call.argv.index("--model") + 1] for call in stage.calls("claude")[2:4]]
    assert models == ["sonnet", "haiku"]
    assert played.state["status"] == "completed"


def test_debugging(tmp_path: Path) -> None:
    stage = stage_for(tmp_path)
    played = play(stage, "debugging", "--debug", exit_code=1)
    diagnosis = (stage.folder / "artifacts/debugging/diagnosis.txt").read_text()
    # The run's own records are there for the step that looks at them.
    assert "reading data/input.csv\ncannot read data/input.csv\n" in diagnosis
    assert '"exit_code": 3' in diagnosis
    assert played.step("ImportData")["exit_code"] == 3
    assert played.has_log("orchestrator.log")
    stage.write("data/input.csv", "a\nb\n")
    assert play(stage, "debugging").step("Imported")["output"] == "The data was imported.\n"


VERDICT = {"approved": True, "reason": "It works.", "issues": [], "task_id": "current-change"}
REJECTED = VERDICT | {"approved": False, "reason": "It's $(touch canary) broken."}


def stage_for_review(tmp_path: Path, body: str) -> Stage:
    """A git repository with an uncommitted change, and an agent that judges it."""
    stage = stage_for(tmp_path)
    stage.claude(body)
    stage.write("code.py", "print(1)\n")
    author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for command in (["init", "-q"], ["add", "code.py"], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", *author, *command], cwd=stage.folder, check=True)
    stage.write("code.py", "print(2)\n")
    return stage


@pytest.mark.parametrize(
    ("said", "last", "exit_code"),
    [
        (json.dumps(VERDICT), "Approved", 0),
        (json.dumps(REJECTED), "Rejected", 1),
        ("Looks good to me!", "ReviewUnusable", 1),
    ],
    ids=["approved", "rejected", "prose"],
)
def test_qa_gating_stdout(tmp_path: Path, said: str, last: str, exit_code: int) -> None:
    stage = stage_for_review(tmp_path, f"def answer(prompt): return {said!r}")
    played = play(stage, "qa_gating_stdout", exit_code=exit_code)
    assert "+print(2)" in (stage.folder / "artifacts/qa/request.md").read_text()
    assert played.step(last)["exit_code"] == exit_code
    assert {"Approved", "Rejected", "ReviewUnusable"} & set(played.state["steps"]) == {last}
    verdict = (stage.folder / "artifacts/qa/verdict_current-change.json").read_text()
    assert verdict.rstrip("\n") == said
    if last == "Rejected":
        assert played.log("Rejected.stderr") == f"QA did not approve: {REJECTED['reason']}\n"
    assert not (stage.folder / "canary").exists()


@pytest.mark.parametrize(("verdict", "folder"), [(VERDICT, "processed"), (REJECTED, "failed")])
def test_qa_gating_verdict_file(tmp_path: Path, verdict: dict[str, object], folder: str) -> None:
    body = f"""
        def answer(prompt):
            place = next(l for l in open("inbox/qa/current-change.task") if "Write" in l)
            pathlib.Path(place.split()[-1]).write_text({json.dumps(verdict)!r})
            return "written"
    """
    stage = stage_for_review(tmp_path, body)
    played = play(stage, "qa_gating_verdict_file", exit_code=0 if verdict is VERDICT else 1)
    stamp = played.state["run_id"].partition("-")[0]
    assert played.step("WaitForVerdict")["files"] == ["inbox/qa/results/current-change.json"]
    assert (stage.folder / folder / stamp / "current-change.task").exists()
    assert "The request to review:" in stage.calls("claude")[-1].stdin


@pytest.mark.parametrize(
    ("said", "detail"),
    [
        (json.dumps(VERDICT), ""),
        (json.dumps(REJECTED), "json_require_failed"),
        (json.dumps({"approved": "yes"}), "json_schema_errors"),
        ("Sure!", "json_parse_error"),
    ],
    ids=["approved", "rejected", "other shape", "prose"],
)
def test_qa_gating_schema(tmp_path: Path, said: str, detail: str) -> None:
    stage = stage_for_review(tmp_path, f"def answer(prompt): return {said!r}")
    played = play(stage, "qa_gating_schema", exit_code=1 if detail else 0)
    step = played.step("ReviewChange")
    if detail:
        assert step["exit_code"] == 2
        assert "NotApproved" in played.state["steps"]
        assert detail == "json_parse_error" or detail in step["error"]["context"]
    else:
        assert step["json"] == VERDICT
        assert played.step("Approved")["output"] == "QA approved current-change.\n"


def test_item_lifecycle(tmp_path: Path) -> None:
    stage = stage_for(tmp_path)
    stage.claude("""
        def answer(prompt):
            pathlib.Path("current").write_text(prompt)
            return "done"
    """)
    # Task a is right at once, b after a repair, c never; d is not reached.
    stage.program(
        "make",
        """
        task = pathlib.Path("current").read_text()
        is_repaired = "The task, and the log of the first attempt:" in task
        sys.exit(0 if task.startswith("a") or (is_repaired and "b.task" in task) else 2)
        """,
    )
    for name in "abcd":
        stage.write(f"inbox/engineer/{name}.task", f"{name}: please")
    played = play(stage, "item_lifecycle", exit_code=1)
    stamp = played.state["run_id"].partition("-")[0]
    assert sorted(os.listdir(stage.folder / "processed" / stamp)) == ["a.task", "b.task"]
    assert os.listdir(stage.folder / "failed" / stamp) == ["c.task"]
    assert os.listdir(stage.folder / "inbox/engineer") == ["d.task"]
    results = [iteration["lifecycle"]["result"] for iteration in played.loop("HandleTasks")[:3]]
    assert results == ["success", "success", "failure"]
    assert sorted(os.listdir(stage.folder / "inbox/qa")) == ["review_0.task", "review_1.task"]
    # Started again, it goes on with what is left.
    stage.write("inbox/engineer/d.task", "a better one")
    again = play(stage, "item_lifecycle")
    # Both runs may have begun in one second, and then share the folder that is named after it.
    stamp = again.state["run_id"].partition("-")[0]
    assert "d.task" in os.listdir(stage.folder / "processed" / stamp)
    assert os.listdir(stage.folder / "inbox/engineer") == []
