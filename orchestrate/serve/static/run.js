// @ts-check
/** One run: where it stands, and behind tabs with addresses of their own what is known of it. */
import { colouredText } from "./ansi.js";
import { changedFiles, changedSteps } from "./changes.js";
import { chatBox } from "./chat.js";
import { ago, api, badge, breakable, copyable, fill, h, money, query, say, took, trouble, twice, why } from "./dom.js";
import { panel } from "./inbox.js";
import { logView } from "./log.js";

const TABS = ["overview", "steps", "log", "chat", "changes", "cost", "recipe", "events"];
const MOST_NODES = 300;
const MOST_ROWS = 500;
const PATIENCE_MS = 250;
const LAST_LINES = 12;

/** @param {string} id @param {string} tab @param {any} console @param {any} live @param {(path: string) => void} go */
export function runView(id, tab, console, live, go) {
  tab = TABS.includes(tab) ? tab : "overview";
  const head = h("header", { class: "run-head" });
  const asks = h("div", { class: "sticky" });
  const body = h("section", { class: "tab" }, h("p", { class: "empty" }, "reading …"));
  const tabs = h("nav", { class: "tabs", "aria-label": "Run" }, TABS.map((t) => h("a", { href: `/runs/${id}${t === "overview" ? "" : `/${t}`}`, "aria-current": t === tab ? "page" : null }, t)));
  const said = h("div", { "aria-live": "polite" });
  const el = h("div", { class: "run-view" }, head, said, asks, tabs, body);
  /** @type {any} */ let inner = null;
  /** @type {any} */ let shown = null;
  let seq = 0;
  let changed = "";
  /** @type {Promise<void> | null} */ let first = null;
  /** @type {any[]} */ let events = [];

  async function act(/** @type {string} */ verb) {
    fill(said, `${verb} …`);
    try {
      const told = await api(`/runs/${id}/${verb}`, { body: {} });
      fill(said, told.message || "");
      say(told.message || `${verb}: done`);
      refresh();
    } catch (error) { fill(said, trouble(error)); }
  }
  function drawHead() {
    const r = shown.row;
    const isOver = ["completed", "cancelled"].includes(r.status);
    const isLive = shown.status && ["working", "quiet", "waits for quota"].includes(r.state);
    const next = shown.status?.next || [];
    fill(head, h("h1", {}, breakable(r.recipe)), h("p", {}, badge(r.state), " ", r.state === "quiet" ? `for ${took(r.quiet_ms)} ` : "", why(r), " "),
      h("p", { class: "quiet" }, [took(r.elapsed_ms), money(r.cost), why(r).includes(r.step) ? "" : r.step, r.last_activity ? `active ${ago(r.last_activity)}` : "", r.run_id].filter(Boolean).join(" · ")),
      [...lineage(shown.status || {}), ...(r.budgets || []).map((/** @type {any} */ b) => b.words)].map((words) => h("p", { class: "quiet" }, words)),
      r.note ? h("p", { class: "note" }, r.note) : null, shown.problem ? h("p", { class: "note bad" }, shown.problem) : null,
      console.read_only || !shown.status ? null : h("div", { class: "buttons" },
        isLive ? h("button", { type: "button", onclick: () => act("stop") }, "stop") : null,
        !isOver && !isLive && !shown.status.approvals.length ? h("button", { type: "button", class: "good", onclick: () => act("resume") }, "resume") : null,
        isOver ? null : twice("cancel", "end it for good?", () => act("cancel"), "bad")),
      shown.commands ? h("details", { class: "commands" }, h("summary", {}, "commands"), h("ul", {}, [...next, ...Object.values(shown.commands)].map((c) => h("li", {}, copyable(String(c)))))) : null);
  }
  async function drawQuestions() {
    if (!shown.status?.approvals?.length) return fill(asks);
    const { questions } = await api("/inbox");
    const own = questions.filter((/** @type {any} */ q) => q.run_id === id);
    const kept = new Map([...asks.children].map((c) => [/** @type {any} */ (c).dataset.key, c]));
    fill(asks, own.map((/** @type {any} */ q) => kept.get(`${q.id}.${q.digest}`) || panel(q, refresh, console.read_only, tab === "overview" ? "run" : "tab")));
  }
  async function refresh() {
    try { shown = await api(`/runs/${id}`); } catch (error) { return fill(body, trouble(error)); }
    drawHead();
    // A tab that takes long does not keep the rest of the page waiting.
    if (first) { await first; await draw(); }
    else await Promise.race([first = draw(), new Promise((done) => setTimeout(done, PATIENCE_MS))]);
    // What takes git's word comes when it comes.
    drawQuestions().catch((error) => fill(asks, trouble(error)));
    if (!seq) {
      seq = shown.last_seq;
      live.ask("follow", () => ({ type: "follow", run: id, after: seq }));
    }
  }
  async function draw() {
    try { await views[tab](); } catch (error) { fill(body, trouble(error)); }
  }
  const broken = h("div");
  const counted = h("p", { class: "quiet" });
  const listed = h("ol", { class: "events" });
  /** New ones are added: what is open stays open. */
  function drawEvents() {
    const last = Number(listed.dataset.last || 0);
    listed.append(...events.filter((e) => e.seq > last).map(eventLine));
    while (listed.children.length > MOST_ROWS) listed.children[0].remove();
    listed.setAttribute("start", String(events[0]?.seq || 1));
    listed.dataset.last = String(events[events.length - 1]?.seq || 0);
    const all = Math.max(shown?.last_seq || 0, seq);
    fill(counted, all > events.length ? `${all} events; the last ${events.length}` : `${all} events`);
    if (!listed.isConnected) fill(body, counted, listed);
  }
  /** @type {Record<string, () => Promise<void>>} */
  const views = {
    overview: async () => {
      const status = shown.status;
      const list = () => stepList(id, status || {}, shown.row.state === "nobody works on it");
      const text = await api(`/runs/${id}/graph`).catch(() => "");
      const drawn = /** @type {any} */ (new DOMParser().parseFromString(text || "<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml").documentElement);
      fill(broken, await failure(id, shown.row).catch(() => null));
      const isLarge = drawn.querySelectorAll("rect.box").length > MOST_NODES;
      const before = body.querySelector("svg");
      if (before && !isLarge) {
        recolour(before, drawn);
        return body.lastElementChild?.replaceWith(list());
      }
      fill(body, broken, isLarge || !drawn.querySelector(".box") ? null : h("div", { class: "graph", tabindex: "0", role: "region", "aria-label": "Graph of the plan" }, document.importNode(drawn, true)), h("h2", {}, "Steps"), list());
    },
    steps: async () => {
      const told = await api(`/runs/${id}/steps`);
      const bars = told.steps.flatMap((/** @type {any} */ s) => s.bars);
      const place = collapsed(told.sittings, bars);
      fill(body, told.notes.map((/** @type {string} */ n) => h("p", { class: "note" }, n)), h("table", { class: "steps" }, h("thead", {}, h("tr", {}, ["Step", "State", "Visits", "Attempts", "Time", "Outcome", "When"].map((t) => h("th", { scope: "col" }, t)))), h("tbody", {}, told.steps.slice(0, MOST_ROWS).map((/** @type {any} */ s) => h("tr", {},
        h("td", { class: s.inner ? "inner" : "" }, s.items === null && s.attempts ? h("a", { href: `/runs/${id}/log?step=${encodeURIComponent(s.step)}` }, s.step) : s.step, s.items === null ? "" : ` (${s.items} items)`),
        h("td", {}, standing(s)), h("td", { "data-label": "visits" }, s.visits), h("td", { "data-label": "attempts" }, s.attempts), h("td", { "data-label": "time" }, took(s.duration_ms)), h("td", { "data-label": "outcome" }, Object.entries(s.outcomes).map(([o, n]) => `${o}${Number(n) > 1 ? ` ×${n}` : ""}`).join(", ") || s.error || ""),
        h("td", { class: "when" }, timeline(s.bars, place)))))), told.left_out ? h("p", { class: "quiet" }, `${told.left_out} more`) : null);
    },
    log: async () => {
      if (inner) return;
      const told = await api(`/runs/${id}/steps?limit=500`).catch(() => ({ steps: [] }));
      const steps = told.steps.filter((/** @type {any} */ s) => s.items === null && s.attempts);
      const worked = (/** @type {any} */ s) => Math.max(0, ...s.bars.map((/** @type {any} */ b) => b.end));
      const newest = [...steps].sort((a, b) => worked(b) - worked(a))[0];
      const here = shown.status?.current?.find((/** @type {any} */ c) => steps.some((/** @type {any} */ s) => s.step === c.step))?.step || steps.findLast((/** @type {any} */ s) => s.status === "failed")?.step || newest?.step || "";
      inner = logView(id, live, steps, here);
      fill(body, inner.el);
      await inner.refresh();
    },
    chat: async () => {
      const session = shown.row.session_id || id;
      if (!inner) {
        inner = chatBox(session, console);
        fill(body, inner.el);
      }
      await inner.refresh();
    },
    changes: async () => {
      const since = new URLSearchParams(location.search).get("since") === "gate" ? "gate" : "start";
      const told = await api(`/runs/${id}/changes${query({ since })}`);
      const known = since + JSON.stringify(told);
      if (known === changed) return;
      changed = known;
      const ways = [["start", "since the run began"], ["gate", told.gate ? `since gate ${told.gate}` : "since the last gate"]];
      fill(body, h("p", { class: "ways" }, ways.map(([way, words]) => h("a", { href: `/runs/${id}/changes${way === "gate" ? "?since=gate" : ""}`, "aria-current": way === since ? "page" : null }, words))),
        since === "gate" && !told.gate ? h("p", { class: "note" }, "No gate was answered yet: this is since the run began.") : null,
        changedFiles(id, told.files.slice(0, MOST_ROWS), since), told.left_out ? h("p", { class: "quiet" }, `${told.left_out} more`) : null,
        since === "start" ? changedSteps(id, told.steps) : null,
        told.how.map((/** @type {string} */ t) => h("p", {}, t)), told.commits.length ? h("ul", {}, told.commits.map((/** @type {string} */ c) => h("li", {}, h("code", {}, c)))) : null);
    },
    cost: async () => {
      const told = await api(`/runs/${id}/report`);
      const row = (/** @type {string} */ name, /** @type {any} */ u) => h("tr", {}, h("td", {}, name), h("td", { "data-label": "turns" }, u.turns), h("td", { "data-label": "cost" }, u.cost_usd === null ? "unknown" : `$${u.cost_usd.toFixed(4)}${u.turns_computed ? " (computed)" : ""}`), h("td", { "data-label": "turns without cost" }, u.turns_without_cost || ""), h("td", { "data-label": "tokens in" }, u.input_tokens ?? "unknown"), h("td", { "data-label": "tokens out" }, u.output_tokens ?? "unknown"));
      const asked = told.steps.filter((/** @type {any} */ s) => s.usage.turns);
      fill(body, asked.length ? h("table", {}, h("thead", {}, h("tr", {}, ["Step", "Turns", "Cost", "Turns without cost", "Tokens in", "Tokens out"].map((t) => h("th", { scope: "col" }, t)))), h("tbody", {}, asked.slice(0, MOST_ROWS).map((/** @type {any} */ s) => row(s.step, s.usage)), row("all", told.usage))) : h("p", { class: "empty" }, "No agent was asked."));
    },
    recipe: async () => {
      const { documents } = await api(`/runs/${id}/definition`);
      fill(body, Object.entries(documents).map(([name, d]) => h("details", { open: true }, h("summary", {}, name), h("pre", { class: "text", tabindex: "0" }, JSON.stringify(d, null, 2).slice(0, 40000)))));
    },
    events: async () => {
      if (!events.length) {
        const told = await api(`/runs/${id}/events?after=${Math.max(0, shown.last_seq - MOST_ROWS)}`);
        events = told.events.slice(-MOST_ROWS);
      }
      drawEvents();
    },
  };
  return {
    el, title: "Run", refresh,
    onRun: async (/** @type {Set<string>} */ runs) => { if (runs.has(id)) { await refresh(); await inner?.onRun?.(); } },
    onEvents: (/** @type {any} */ m) => {
      if (m.run_id !== id || !m.records.length) return;
      seq = m.records[m.records.length - 1].seq;
      if (events.length) events = [...events, ...m.records.filter((/** @type {any} */ r) => r.seq > events[events.length - 1].seq)].slice(-MOST_ROWS);
      if (events.length && tab === "events") drawEvents();
    },
    onLog: (/** @type {any} */ m) => inner?.onLog?.(m),
    tick: async () => { if (shown && ["working", "quiet", "waits for quota"].includes(shown.row.state)) { shown = await api(`/runs/${id}`); drawHead(); } },
    close: () => { live.ask("follow", null); inner?.close?.(); },
    rows: () => [...asks.children],
    shown: () => inner?.shown?.(),
  };
}

/** What a failed step printed last, with the way to all of it. @param {string} run @param {any} row */
async function failure(run, row) {
  if (row.status !== "failed") return null;
  const { steps } = await api(`/runs/${run}/steps`);
  const step = steps.findLast((/** @type {any} */ s) => s.status === "failed" && s.items === null && s.attempts);
  if (!step) return null;
  const where = { step: step.step, limit: LAST_LINES };
  const printed = [await api(`/runs/${run}/log${query({ ...where, stream: "stderr" })}`), await api(`/runs/${run}/log${query(where)}`)].find((page) => page.total);
  return h("article", { class: "card failure" }, h("h2", {}, h("a", { href: `/runs/${run}/log?step=${encodeURIComponent(step.step)}` }, step.step), ": ", step.error || "failed"),
    printed ? h("pre", { class: "text", tabindex: "0" }, colouredText(printed.lines.join("\n"))) : null);
}

/** The steps that were taken, and where the run is. @param {string} run @param {any} status @param {boolean} isLeft */
function stepList(run, status, isLeft) {
  const shown = (/** @type {string} */ word) => (isLeft && word === "running" ? "unfinished" : word);
  /** @type {Record<string, any>} */ const steps = { ...status.steps };
  for (const at of status.current || []) steps[at.step] = { ...steps[at.step], status: at.waits ? "waiting" : { asking: "waiting", running: "running", failed: "failed" }[/** @type {string} */ (at.phase)] || steps[at.step]?.status || "" };
  const words = (/** @type {any} */ s) => [s.outcome, s.error, s.total === undefined ? "" : `${s.completed} of ${s.total}${s.failed?.length ? `, ${s.failed.length} failed` : ""}`].filter(Boolean).join(" · ");
  if (!Object.keys(steps).length) return h("p", { class: "empty" }, "No step is known to have begun.");
  return h("table", { class: "steps list" }, h("tbody", {}, Object.entries(steps).slice(0, MOST_ROWS).map(([name, s]) => h("tr", {},
    h("td", { class: "step" }, s.total === undefined ? h("a", { href: `/runs/${run}/log?step=${encodeURIComponent(name)}` }, name) : name), h("td", {}, s.status ? badge(shown(s.status)) : ""), h("td", {}, took(s.duration_ms)), h("td", { class: "rest" }, words(s))))));
}

/** How a step stands; of a loop's, how often each way. @param {any} s */
function standing(s) {
  const ways = Object.entries(s.statuses);
  if (ways.length < 2) return s.status ? badge(s.status) : "";
  return ways.map(([status, n]) => h("div", {}, badge(status), ` ×${n}`));
}

/** @param {any} e */
function eventLine(e) {
  const words = [e.step, e.outcome, e.error].filter(Boolean).join(" · ").slice(0, 200);
  return h("li", {}, h("details", {}, h("summary", {}, h("time", { datetime: e.at }, new Date(e.at).toLocaleTimeString([], { hourCycle: "h23" })), " ", e.event, " ", h("span", { class: "quiet" }, words)), h("pre", { class: "text", tabindex: "0" }, JSON.stringify(e.data, null, 1).slice(0, 10000))));
}

/** Colour a drawing in place: what was laid out stays where it is. @param {any} before @param {any} after */
function recolour(before, after) {
  const [old, now] = [before, after].map((s) => [...s.querySelectorAll("*")]);
  if (old.length !== now.length) return before.replaceWith(document.importNode(after, true));
  old.forEach((el, i) => {
    if (el.getAttribute("class") !== now[i].getAttribute("class")) el.setAttribute("class", now[i].getAttribute("class") || "");
    if (!el.children.length && el.textContent !== now[i].textContent) el.textContent = now[i].textContent;
  });
}

/** Where a run is from, where it works, and what it took over. @param {any} status @returns {string[]} */
function lineage({ forked, worktree, reused }) {
  const steps = reused && `${reused.steps} ${reused.steps === 1 ? "step" : "steps"}`;
  return [
    forked && `fork of ${forked.run_id}, from ${forked.from} on`,
    worktree && `worktree ${worktree.path} · branch ${worktree.branch}`,
    reused && `reused ${steps} of ${reused.from_run ? `run ${reused.from_run}` : "before the edit"}, saves ${took(reused.saved_ms)}${reused.saved_usd === null ? "" : ` · $${reused.saved_usd.toFixed(4)}`}`,
  ].filter(Boolean);
}

/** Time without the gaps in which nothing worked. @param {any[]} sittings @param {any[]} bars */
function collapsed(sittings, bars) {
  const spans = sittings.map((s) => [s.start, s.end ?? Math.max(s.start, ...bars.map((b) => b.end))]).sort((a, b) => a[0] - b[0]);
  const whole = spans.reduce((sum, [a, b]) => sum + Math.max(0, b - a), 0) || 1;
  return (/** @type {number} */ t) => {
    let at = 0;
    for (const [a, b] of spans) {
      if (t <= a) break;
      at += Math.min(t, b) - a;
    }
    return Math.min(1, at / whole);
  };
}

/** @param {any[]} bars @param {(t: number) => number} place */
function timeline(bars, place) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 200 10");
  svg.setAttribute("class", "timeline");
  svg.setAttribute("aria-hidden", "true");
  for (const bar of bars) {
    const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const x = place(bar.start) * 200;
    for (const [name, value] of [["x", x], ["y", 1], ["width", Math.max(1.5, place(bar.end) * 200 - x)], ["height", 8], ["class", bar.kind]]) rect.setAttribute(String(name), String(value));
    svg.append(rect);
  }
  return svg;
}
