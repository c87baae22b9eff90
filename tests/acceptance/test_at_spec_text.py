"""Workflows exactly as C prints them: the rulings promise that they run unchanged."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

from tests.acceptance.fakes import Stage

# C, "Example: Multi-Agent Inbox Processing".
MULTI_AGENT = """
version: "1.1.1"
name: "multi_agent_feature_dev"
strict_flow: true

providers:
  claude:
    command: ["claude", "-p", "${PROMPT}", "--model", "${model}"]
    defaults:
      model: "claude-sonnet-4-20250514"  # Options: claude-opus-4-1-20250805

steps:
  # Architect creates design documents
  - name: ArchitectDesign
    agent: "architect"
    provider: "claude"
    input_file: "prompts/architect/design_system.md"
    output_file: "artifacts/architect/design_log.md"  # Captures thinking
    # Claude creates: artifacts/architect/system_design.md, api_spec.md

  # Check what architect created
  - name: ValidateArchitectOutput
    command: ["test", "-f", "artifacts/architect/system_design.md"]
    on:
      failure:
        goto: ArchitectFailed

  # Check for engineer tasks in inbox
  - name: CheckEngineerInbox
    command: ["find", "inbox/engineer", "-name", "*.task", "-type", "f"]
    output_capture: "lines"
    on:
      success:
        goto: ProcessEngineerTasks
      failure:
        goto: CreateEngineerTasks

  # Create tasks from architect output
  - name: CreateEngineerTasks
    command: ["bash", "-c", "
      echo 'Implement the system described in:' > inbox/engineer/implement.tmp &&
      ls artifacts/architect/*.md >> inbox/engineer/implement.tmp &&
      mv inbox/engineer/implement.tmp inbox/engineer/implement.task
    "]
    on:
      success:
        goto: CheckEngineerInbox

  # Process each engineer task
  - name: ProcessEngineerTasks
    for_each:
      items_from: "steps.CheckEngineerInbox.lines"
      as: task_file
      steps:
        - name: ImplementWithClaude
          agent: "engineer"
          provider: "claude"
          input_file: "prompts/engineer/generic_implement.md"  # Now can be generic!
          output_file: "artifacts/engineer/impl_log_${loop.index}.md"
          depends_on:
            required:  # Must have architect's designs
              - "artifacts/architect/system_design.md"
              - "artifacts/architect/api_spec.md"
            optional:  # Nice to have if available
              - "docs/coding_standards.md"
              - "artifacts/architect/examples.md"
            inject:
              mode: "list"
              instruction: "Implement the system based on these architecture documents:"
          on:
            failure:
              goto: HandleMissingDependencies
          # Claude writes: src/impl_${loop.index}.py

        - name: WriteStatus
          command: ["echo", '{"success": true, "task": "${task_file}", "impl": "src/impl_${loop.index}.py"}']
          output_file: "artifacts/engineer/status_${loop.index}.json"
          output_capture: "json"

        - name: MoveToProcessed
          command: ["bash", "-c", "mkdir -p processed/${run.timestamp_utc}_${loop.index} && mv ${task_file} processed/${run.timestamp_utc}_${loop.index}/"]

        - name: CreateQATask
          when:
            equals:
              left: "${steps.WriteStatus.json.success}"
              right: "true"
          command: ["echo", "Review src/impl_${loop.index}.py from ${task_file}"]
          output_file: "inbox/qa/review_${loop.index}.task"
          depends_on:
            required:
              - "src/impl_${loop.index}.py"  # Verify engineer created it

  # Error handlers
  - name: ArchitectFailed
    command: ["echo", "ERROR: Architect did not create required design files"]
    on:
      success:
        goto: _end

  - name: HandleMissingDependencies
    command: ["echo", "ERROR: Required architect artifacts missing for engineer"]
    on:
      success:
        goto: _end
"""  # noqa: E501
CLAUDE = """
    def answer(prompt):
        if prompt == "Design it.":
            for name in {files}:
                pathlib.Path(f"artifacts/architect/{{name}}.md").write_text(name)
            return "designed"
        pathlib.Path("src").mkdir(exist_ok=True)
        pathlib.Path(f"src/impl_{{number - 2}}.py").write_text("print()")
        return "implemented"
"""


def stage_for_agents(tmp_path: Path, *files: str) -> Stage:
    stage = Stage(
        tmp_path,
        {
            "prompts/architect/design_system.md": "Design it.",
            "prompts/engineer/generic_implement.md": "Implement it.",
        },
    )
    (stage.folder / "inbox/engineer").mkdir(parents=True)
    stage.claude(CLAUDE.format(files=list(files)))
    return stage


def test_multi_agent_inbox_as_c_prints_it(tmp_path: Path) -> None:
    stage = stage_for_agents(tmp_path, "system_design", "api_spec")
    for name in ("one", "two words; touch canary"):
        stage.write(f"inbox/engineer/{name}.task", name)
    played = stage.play(MULTI_AGENT)
    stamp = played.state["run_id"].partition("-")[0]
    assert os.listdir(stage.folder / "inbox/engineer") == []
    moved = [os.listdir(stage.folder / f"processed/{stamp}_{index}") for index in (0, 1)]
    assert sorted(moved) == [["one.task"], ["two words; touch canary.task"]]
    statuses = [
        iteration["WriteStatus"]["json"] for iteration in played.loop("ProcessEngineerTasks")
    ]
    assert [status["impl"] for status in statuses] == ["src/impl_0.py", "src/impl_1.py"]
    for index, status in enumerate(statuses):
        review = (stage.folder / f"inbox/qa/review_{index}.task").read_text()
        assert review == f"Review src/impl_{index}.py from {status['task']}\n"
    prompt = stage.calls("claude")[1].argv[1]
    assert prompt == (
        "Implement the system based on these architecture documents:\nRequired:\n"
        "- artifacts/architect/api_spec.md\n- artifacts/architect/system_design.md\n\n"
        "Implement it."
    )
    assert not (stage.folder / "canary").exists()


def test_multi_agent_inbox_without_a_specification(tmp_path: Path) -> None:
    """The engineer's files are missing: exit 2, and the handler outside the loop takes it."""
    stage = stage_for_agents(tmp_path, "system_design")
    stage.write("inbox/engineer/one.task", "one")
    played = stage.play(MULTI_AGENT)
    implement = played.loop("ProcessEngineerTasks")[0]["ImplementWithClaude"]
    assert implement["exit_code"] == 2
    assert implement["error"]["context"]["failed_deps"] == ["artifacts/architect/api_spec.md"]
    assert "ERROR" in played.step("HandleMissingDependencies")["output"]
    assert "ArchitectFailed" not in played.state["steps"]


def test_multi_agent_inbox_without_a_design(tmp_path: Path) -> None:
    played = stage_for_agents(tmp_path).play(MULTI_AGENT)
    assert "ERROR" in played.step("ArchitectFailed")["output"]
    assert "ProcessEngineerTasks" not in played.state["steps"]


# C, "Example: Debugging Failed Runs".
DEBUGGING = """
version: "1.1"
name: "debugging_example"

steps:
  - name: ProcessWithDebug
    command: ["python", "process.py"]
    env:
      DEBUG: "0"  # env values are literal; orchestrator does not substitute
    on:
      failure:
        goto: DiagnoseFailure

  - name: DiagnoseFailure
    command: ["bash", "-c", "
      echo 'Checking failure context...' &&
      cat ${run.root}/logs/ProcessWithDebug.stderr &&
      jq '.steps.ProcessWithDebug.error' ${run.root}/state.json
    "]
"""


def test_debugging_as_c_prints_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.program("python", "sys.exit('it broke with DEBUG=' + os.environ['DEBUG'])")
    stage.program("jq", "print(json.dumps(json.load(open(argv[1]))['steps']['ProcessWithDebug']))")
    output = stage.play(DEBUGGING).step("DiagnoseFailure")["output"]
    first, second, third = output.splitlines()
    assert (first, second) == ("Checking failure context...", "it broke with DEBUG=0")
    assert json.loads(third)["error"]["stderr_tail"] == ["it broke with DEBUG=0"]


# C, "Dynamic Content Pattern" and "Multi-Agent Coordination Pattern", put together.
PATTERNS = """
version: "1.1.1"
context: {project_name: "it's a bird"}
providers: {claude: {command: ["claude", "-p", "${PROMPT}"]}}
steps:
  # Step 1: Create dynamic prompt with substituted variables
  - name: PreparePrompt
    command: ["bash", "-c", "echo 'Analyze ${context.project_name}' > temp/prompt.md"]

  # Step 2: Use the prepared prompt
  - name: Analyze
    provider: "claude"
    input_file: "temp/prompt.md"  # Contains substituted content

  # Step 2: Drop a small queue task (atomic write)
  - name: PrepareEngineerTask
    command: ["bash", "-lc", "printf 'Implement the architecture.' > inbox/engineer/task_${run.timestamp_utc}.tmp && mv inbox/engineer/task_${run.timestamp_utc}.tmp inbox/engineer/task_${run.timestamp_utc}.task"]

  # Step 3: Agent B processes task; inputs declared and injected
  - name: EngineerImplement
    agent: "engineer"
    provider: "claude"
    input_file: "inbox/engineer/task_${run.timestamp_utc}.task"
    output_file: "artifacts/engineer/impl_log.md"
    depends_on:
      required:
        - "artifacts/architect/system_design.md"
        - "artifacts/architect/api_spec.md"
      inject: true  # list/prepend with default instruction

  - name: CallAPI
    command: ["bash", "-c", "TRACE_ID=${run.id} curl https://example/api"]
"""  # noqa: E501


def test_prompt_patterns_as_c_prints_them(tmp_path: Path) -> None:
    files = {f"artifacts/architect/{name}.md": "x" for name in ("system_design", "api_spec")}
    stage = Stage(tmp_path, {**files, "temp/.keep": "", "inbox/engineer/.keep": ""})
    stage.claude("def answer(prompt): return prompt")
    stage.program("curl")
    played = stage.play(PATTERNS)
    analyze, implement = (call.argv[1] for call in stage.calls("claude"))
    assert analyze == "Analyze it's a bird\n"
    assert implement == (
        "The following files are required inputs for this task:\n"
        "- artifacts/architect/api_spec.md\n- artifacts/architect/system_design.md\n\n"
        "Implement the architecture."
    )
    (call,) = stage.calls("curl")
    assert call.argv == ["https://example/api"]
    assert call.env["TRACE_ID"] == played.state["run_id"]


# C, "Declarative Task Lifecycle": without the wait, whose pattern needs a shell that no path has.
LIFECYCLE = """
version: "1.2"
providers: {claude: {command: ["claude", "-p", "${PROMPT}"]}}
steps:
  - name: CheckEngineerInbox
    command: ["find", "inbox/engineer", "-name", "*.task", "-type", "f"]
    output_capture: "lines"

  - name: ProcessEngineerTasks
    for_each:
      items_from: "steps.CheckEngineerInbox.lines"
      as: task_file
      on_item_complete:
        success:
          move_to: "processed/${run.timestamp_utc}"
        failure:
          move_to: "failed/${run.timestamp_utc}"
      steps:
        - name: Implement
          provider: "claude"
          input_file: "${task_file}"

        - name: CreateQATask
          command: ["bash", "-lc", "echo 'Review ${task_file}' > inbox/qa/$(basename \\"${task_file}\\").task"]

        - name: AssertQAApproved
          command: ["bash", "-lc", "jq -e '.approved == true' inbox/qa/results/$(basename \\"${task_file}\\").json >/dev/null"]
          on:
            failure: { goto: _end }  # Forces item failure; lifecycle will move to failed/
"""  # noqa: E501


def test_item_lifecycle_as_c_prints_it(tmp_path: Path) -> None:
    # C's script leaves the result of basename unquoted, so no spaces here.
    hostile = "$(touch${IFS}canary);it's.task"
    stage = Stage(tmp_path, {f"inbox/engineer/{hostile}": "Do it.", "inbox/qa/results/.keep": ""})
    stage.claude("def answer(prompt): return prompt")
    stage.program("jq", "sys.exit(0 if json.load(open(argv[2]))['approved'] is True else 1)")
    # A login shell sets its own PATH first.
    profile = f"PATH={shlex.quote(str(tmp_path / 'programs'))}:$PATH\n"
    (tmp_path / "home/.bash_profile").write_text(profile)
    for approved, folder in ((True, "processed"), (False, "failed")):
        stage.write(f"inbox/engineer/{hostile}", "Do it.")
        stage.write(f"inbox/qa/results/{hostile}.json", json.dumps({"approved": approved}))
        played = stage.play(LIFECYCLE)
        stamp = played.state["run_id"].partition("-")[0]
        assert os.listdir(stage.folder / folder / stamp) == [hostile]
    assert (stage.folder / f"inbox/qa/{hostile}.task").read_text() == (
        f"Review inbox/engineer/{hostile}\n"
    )
    assert not (stage.folder / "canary").exists()
