"""The version of an agent's program, asked once per run: two machines rarely have the same."""

from __future__ import annotations

from orchestrate.agent_names import own_name
from orchestrate.agents import registry
from orchestrate.agents.finding import Missing, version_in
from orchestrate.engine.programs import run_program
from orchestrate.engine.runtime import Runtime
from orchestrate.engine.texts import decode
from orchestrate.execute.base import Exit, Job

# A program that does not say its version in this time is asked no more.
_PATIENCE_S = 20.0


def program_version(rt: Runtime, backend: str) -> str:
    """'' where there is no program, or it does not say."""
    if not registry.is_program(backend):
        return ""
    with rt.asking_versions:
        if backend not in rt.versions:
            rt.versions[backend] = _ask(rt, backend)
    return rt.versions[backend]


def _ask(rt: Runtime, backend: str) -> str:
    path = registry.find_program(backend, rt.environment)
    if isinstance(path, Missing):
        return ""
    attempt = f"version/{own_name(backend)}"
    outputs = tuple(f"{own_name(backend)}.version{end}" for end in ("", ".stderr"))

    def job() -> Job:
        return Job(
            attempt=attempt,
            argv=registry.program_version(backend, path),
            env=dict(rt.environment),
            stdout=outputs[0],
            stderr=outputs[1],
            timeout_s=_PATIENCE_S,
            secrets=rt.secrets.values,
        )

    # The executor may know it from before: asked again, it gives the same answer.
    rt.may_be_known[attempt] = False
    ended = run_program(rt, attempt, job)
    for name in outputs:
        (rt.run.logs / name).unlink(missing_ok=True)
    if not isinstance(ended, Exit) or ended.code != 0 or ended.stdout is None:
        return ""
    return version_in(decode(ended.stdout)[0])[:100]
