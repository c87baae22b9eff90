"""The HTTP interface against its own document, with requests that schemathesis makes up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from orchestrate.serve.api import OPERATIONS
from orchestrate.serve.app import make_app
from orchestrate.serve.openapi import openapi_document
from orchestrate.serve.operations import MOST_TEXT
from orchestrate.testing import Project
from tests.serve.conftest import MakeConsole
from tests.serve.recipes import with_recipes

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("name", [operation.name for operation in OPERATIONS])
def test_every_operation_answers_as_its_document_says(
    name: str, project: Project, make: MakeConsole, tmp_path: Path
) -> None:
    """Whatever is asked: an answer that the document describes, and never a fault of ours."""
    import schemathesis
    from schemathesis import GenerationMode, checks

    wanted = [
        checks.not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
        checks.positive_data_acceptance,
        checks.negative_data_rejection,
    ]
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    with_recipes(project)
    console = make(read_only=True)
    # Texts of the longest kind take minutes to make up, and say no more than short ones.
    document = json.dumps(openapi_document(OPERATIONS)).replace(str(MOST_TEXT), "200")
    schema = schemathesis.openapi.from_dict(json.loads(document))
    schema.app = make_app(console)
    operations: Any = schema.get_all_operations()
    operation = next(
        one.ok() for one in operations
        if one.ok().definition.raw["operationId"] == name
    )  # fmt: skip
    headers = {
        "authorization": f"Bearer {console.keys.api_key()}",
        "host": f"127.0.0.1:{console.port}",
    }

    @given(data=st.data())
    @settings(
        max_examples=4,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def check(data: st.DataObject) -> None:
        mode = data.draw(st.sampled_from(modes))
        case = data.draw(operation.as_strategy(generation_mode=mode))
        answer = case.call(headers=headers, base_url=f"http://127.0.0.1:{console.port}")
        assert answer.status_code < 500, answer.text
        case.validate_response(answer, checks=wanted)

    check()
