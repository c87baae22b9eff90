// @ts-check
/** A session before, during and after a recipe: read along, or say something. */
import { colouredText } from "./ansi.js";
import { ago, api, bounded, breakable, fill, h, trouble, why } from "./dom.js";
import { doing, passages } from "./passages.js";

/** @param {any} m */
const message = (m) => h("article", { class: `message ${m.role}` }, h("small", {}, m.role === "user" ? "asked" : m.provider || "answered", m.timestamp ? ` · ${ago(m.timestamp)}` : ""), h("pre", { class: "text", tabindex: "0" }, colouredText(bounded(m.text))));

/** @param {string} session @param {any} console */
export function chatBox(session, console) {
  const list = h("div", { class: "chat", role: "log", "aria-label": "Messages" });
  /** The turn that has not ended: what was asked, and what the agent does. */
  const turn = h("div", { class: "chat" });
  const state = h("p", { class: "quiet", role: "status" });
  const said = h("div", { "aria-live": "polite" });
  const foot = h("div", { class: "sticky" });
  const text = h("textarea", { rows: "3", "aria-label": "Message", placeholder: "Message (Ctrl+Enter sends)", onkeydown: (/** @type {any} */ e) => e.key === "Enter" && (e.ctrlKey || e.metaKey) && !e.isComposing && send() });
  const form = h("form", { class: "say", onsubmit: (/** @type {any} */ e) => { e.preventDefault(); send(); } }, text, h("button", { class: "good" }, "send"));
  let count = -1;
  /** @type {any} */ let again;
  async function send() {
    if (!text.value.trim()) return;
    fill(said, "sending …");
    try {
      await api(`/sessions/${encodeURIComponent(session)}/prompt`, { body: { text: text.value } });
      text.value = "";
      fill(said);
      await refresh();
      shown();
    } catch (error) { fill(said, trouble(error)); }
  }
  async function exit(/** @type {string} */ run) {
    try { await api(`/runs/${run}/stop`, { body: {} }); refresh(); } catch (error) { fill(said, trouble(error)); }
  }
  async function refresh() {
    /** @type {any} */ let told;
    try { told = await api(`/sessions/${encodeURIComponent(session)}`); } catch (error) { return fill(list, trouble(error)); }
    if (told.messages.length !== count) {
      count = told.messages.length;
      fill(list, told.left_out ? h("p", { class: "quiet" }, `${told.left_out} earlier messages are left out`) : null, count ? told.messages.map(message) : told.active?.asked ? null : h("p", { class: "empty" }, "No agent was asked here yet."));
      list.lastElementChild?.scrollIntoView({ block: "nearest" });
    }
    drawTurn(told.active);
    if (told.active) fill(foot, h("div", { class: "say" }, state, console.read_only ? null : h("button", { type: "button", onclick: () => exit(told.active.run_id) }, told.active.is_chat ? "stop" : "exit recipe")));
    else if (console.read_only) fill(foot, h("p", { class: "quiet" }, "This console only looks."));
    else if (!foot.contains(form)) fill(foot, form);
  }
  /** @param {any} active */
  function drawTurn(active) {
    clearTimeout(again);
    if (!active) return fill(turn);
    const works = active.is_chat ? "The agent works" : `The recipe works here${active.step ? `: ${active.step}` : ""}`;
    const words = active.state === "working" ? [works, active.agent && doing(active)].filter(Boolean).join(" · ") : `${active.is_chat ? "The turn" : "The recipe"} ${active.state === "quiet" ? "is quiet" : active.state} ${why(active)}`;
    if (state.textContent !== words) state.textContent = words;
    const known = JSON.stringify([active.asked, active.passages]);
    if (turn.dataset.known !== known) {
      turn.dataset.known = known;
      const isAtEnd = scrollY + innerHeight > document.documentElement.scrollHeight - 40;
      fill(turn, active.asked ? message({ role: "user", text: active.asked }) : null, active.passages.length ? h("article", { class: "message" }, passages(active.passages)) : null);
      if (isAtEnd) shown();
    }
    // An agent at work tells the run nothing before its turn ends.
    again = setTimeout(() => turn.isConnected && refresh(), 1000);
  }
  const shown = () => (turn.lastElementChild || list.lastElementChild)?.scrollIntoView({ block: "end" });
  return { el: h("div", {}, list, turn, said, foot), refresh, onRun: refresh, shown, close: () => clearTimeout(again) };
}

/** @param {string} session @param {any} console */
export function sessionView(session, console) {
  const box = chatBox(session, console);
  return { el: h("div", {}, h("h1", {}, "Chat"), h("p", { class: "quiet" }, session), box.el), title: "Chat", refresh: box.refresh, onRun: box.refresh, shown: box.shown, close: box.close, rows: () => [] };
}

/** @param {any} console @param {(path: string) => void} go */
export function sessionsView(console, go) {
  const list = h("div", { class: "cards" });
  const said = h("div", { "aria-live": "polite" });
  const text = h("textarea", { rows: "3", "aria-label": "Message in a new session", placeholder: "A message in a new session" });
  async function send() {
    if (!text.value.trim()) return;
    try { const { run_id } = await api("/sessions", { body: { text: text.value } }); go(`/runs/${run_id}/chat`); } catch (error) { fill(said, trouble(error)); }
  }
  const refresh = async () => {
    const { sessions } = await api("/sessions");
    const known = sessions.filter((/** @type {any} */ s) => s.provider);
    fill(list, known.length ? null : h("p", { class: "empty" }, "No session of an agent is known here yet."), known.map((/** @type {any} */ s) => h("article", { class: "card" }, h("h2", {}, h("a", { href: `/sessions/${encodeURIComponent(s.session_id)}` }, breakable(s.name))), h("p", { class: "quiet" }, [s.provider, ago(s.last_modified), s.session_id].filter(Boolean).join(" · ")))));
  };
  return { el: h("div", {}, h("h1", {}, "Chats"), console.read_only ? null : h("form", { class: "say", onsubmit: (/** @type {any} */ e) => { e.preventDefault(); send(); } }, text, h("button", { class: "good" }, "send")), said, list), title: "Chats", refresh, onRun: refresh, rows: () => [...list.querySelectorAll("a")] };
}
