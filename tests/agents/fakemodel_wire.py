"""How four model services answer: a request becomes plain data, and an answer becomes their events.

Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini, as far as agent programs
use them. Everything is streamed, because that is how agents ask.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

Dialect = Literal["anthropic", "responses", "chat", "gemini"]
# A server-sent event: its name, if it has one, and its data.
Event = tuple[str | None, Any]


@dataclass(frozen=True)
class Request:
    """What an agent program asked the model."""

    dialect: Dialect
    model: str
    system: str
    turns: tuple[tuple[str, str], ...]
    tools: tuple[str, ...]
    key: str
    # The format that the answer has to have, as the service is told it.
    format: str = ""

    @property
    def last_prompt(self) -> str:
        return next((text for role, text in reversed(self.turns) if role == "user"), "")

    @property
    def history(self) -> str:
        """All that was said before the last prompt."""
        last = max((at for at, (role, _) in enumerate(self.turns) if role == "user"), default=0)
        return "\n".join(text for _, text in self.turns[:last])

    @property
    def is_side_request(self) -> bool:
        """A title or a summary that the program wants for itself: no tools are offered."""
        return not self.tools

    @property
    def everything(self) -> str:
        return "\n".join([self.system, *(text for _, text in self.turns)])


@dataclass(frozen=True)
class Answer:
    """What the model says, or how its service fails."""

    text: str = "ok"
    tool: tuple[str, dict[str, Any]] | None = None
    status: int = 200
    message: str = ""
    hang: bool = False


def dialect_of(path: str) -> Dialect | None:
    if path.endswith("/messages"):
        return "anthropic"
    if path.endswith("/responses"):
        return "responses"
    if path.endswith("/chat/completions"):
        return "chat"
    return "gemini" if path.endswith((":generateContent", ":streamGenerateContent")) else None


def read_request(dialect: Dialect, path: str, body: dict[str, Any], key: str) -> Request:
    model = body.get("model") or path.rpartition("/")[2].partition(":")[0]
    system, turns, tools = _read_body(dialect, body)
    hidden = ("system", "developer")
    system += "".join(text for role, text in turns if role in hidden)
    said = tuple((role, text) for role, text in turns if role not in hidden)
    wanted = body.get("text") or body.get("response_format")
    return Request(dialect, model, system, said, tuple(tools), key, json.dumps(wanted or ""))


def _read_body(
    dialect: Dialect, body: dict[str, Any]
) -> tuple[str, list[tuple[str, str]], list[str]]:
    """The system prompt, who said what, and the tools that are offered."""
    match dialect:
        case "gemini":
            system = _text(body.get("systemInstruction", {}).get("parts"))
            turns = [(turn.get("role"), _text(turn.get("parts"))) for turn in body["contents"]]
            groups = [tool.get("functionDeclarations", []) for tool in body.get("tools") or ()]
            return system, turns, [function["name"] for group in groups for function in group]
        case "responses":
            system = body.get("instructions") or ""
            turns = [(t.get("role") or "tool", _text(t.get("content"))) for t in body["input"]]
            tools = [tool.get("name") or tool["type"] for tool in body.get("tools") or ()]
            return system, turns, tools
        case "anthropic" | "chat":
            system = _text(body.get("system"))
            turns = [(turn.get("role"), _text(turn.get("content"))) for turn in body["messages"]]
            named = [tool.get("function", tool) for tool in body.get("tools") or ()]
            return system, turns, [tool["name"] for tool in named]


def _text(content: Any) -> str:
    """The text of a message's content. Parts are put together as they are, without a separator."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def error_body(dialect: Dialect, answer: Answer) -> dict[str, Any]:
    kinds = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
    error: dict[str, Any] = {"message": answer.message or f"fake {answer.status}"}
    error["type"] = kinds.get(answer.status, "api_error")
    if dialect == "gemini":
        error["code"] = answer.status
    return {"type": "error", "error": error} if dialect == "anthropic" else {"error": error}


def answer_events(request: Request, answer: Answer, number: int) -> Iterator[Event]:
    match request.dialect:
        case "anthropic":
            return _anthropic(request, answer, number)
        case "responses":
            return _responses(request, answer, number)
        case "chat":
            return _chat(request, answer, number)
        case "gemini":
            return _gemini(answer)


def _anthropic(request: Request, answer: Answer, number: int) -> Iterator[Event]:
    def event(kind: str, **data: Any) -> Event:
        return kind, {"type": kind, **data}

    stop = "tool_use" if answer.tool else "end_turn"
    usage = {"input_tokens": 1000, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": request.model,
        "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    yield event("message_start", message=message)
    yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    delta: dict[str, Any] = {"type": "text_delta", "text": answer.text}
    yield event("content_block_delta", index=0, delta=delta)
    yield event("content_block_stop", index=0)
    if answer.tool:
        name, inputs = answer.tool
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        yield event("content_block_start", index=1, content_block=block)
        delta = {"type": "input_json_delta", "partial_json": json.dumps(inputs)}
        yield event("content_block_delta", index=1, delta=delta)
        yield event("content_block_stop", index=1)
    delta = {"stop_reason": stop, "stop_sequence": None}
    yield event("message_delta", delta=delta, usage={"output_tokens": 100})
    yield event("message_stop")


def _responses(request: Request, answer: Answer, number: int) -> Iterator[Event]:
    def event(kind: str, **data: Any) -> Event:
        return kind, {"type": kind, **data}

    part = {"type": "output_text", "text": answer.text, "annotations": []}
    items: list[dict[str, Any]] = [
        {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [part]}
    ]
    if answer.tool:
        name, inputs = answer.tool
        call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}"}
        items.append({**call, "name": name, "arguments": json.dumps(inputs)})
    usage = {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100}
    response = {"id": f"resp_{number}", "object": "response", "model": request.model}
    yield event("response.created", response={**response, "status": "in_progress"})
    for index, item in enumerate(items):
        yield event("response.output_item.added", output_index=index, item=item)
        yield event("response.output_item.done", output_index=index, item=item)
    done = {**response, "status": "completed", "output": items, "usage": usage}
    yield event("response.completed", response=done)


def _chat(request: Request, answer: Answer, number: int) -> Iterator[Event]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return None, {**common, "choices": [choice]}

    common = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": number}
    common["model"] = request.model
    yield chunk({"role": "assistant", "content": answer.text})
    if answer.tool:
        name, inputs = answer.tool
        function = {"name": name, "arguments": json.dumps(inputs)}
        call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
        yield chunk({"tool_calls": [call]})
    yield chunk({}, "tool_calls" if answer.tool else "stop")
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    yield None, {**common, "choices": [], "usage": usage}
    yield None, "[DONE]"


def _gemini(answer: Answer) -> Iterator[Event]:
    parts: list[dict[str, Any]] = [{"text": answer.text}] if answer.text else []
    if answer.tool:
        name, inputs = answer.tool
        parts.append({"functionCall": {"name": name, "args": inputs}})
    content = {"role": "model", "parts": parts}
    usage = {"promptTokenCount": 1000, "candidatesTokenCount": 100, "totalTokenCount": 1100}
    candidate = {"content": content, "index": 0, "finishReason": "STOP"}
    yield None, {"candidates": [candidate], "usageMetadata": usage}
