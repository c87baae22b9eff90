// @ts-check
/** The frame of the page: signs in, finds the view of an address, keeps it live, hears the keyboard. */
import { sessionView, sessionsView } from "./chat.js";
import { api, fill, h, say, trouble } from "./dom.js";
import { inboxView } from "./inbox.js";
import { Live } from "./live.js";
import { recipesView } from "./recipes.js";
import { runView } from "./run.js";
import { runsView } from "./runs.js";

const app = /** @type {HTMLElement} */ (document.getElementById("app"));
/** @type {any} */ let console_ = null;
/** @type {any} */ let live = null;
/** @type {any} */ let view = null;
/** @type {Map<string, string>} the last known state of each run, for notifications */
const states = new Map();

async function signIn() {
  const key = /^#k=([\w-]+)$/.exec(location.hash);
  if (!key) return;
  history.replaceState(null, "", location.pathname);
  const answer = await fetch("/api/v1/session", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ link: key[1] }) });
  if (answer.ok) location.replace(location.pathname === "/" ? "/runs" : location.pathname);
  else {
    const told = document.getElementById("sign-in-state");
    if (told) told.textContent = (await answer.json()).detail + ". A new link: orchestrate serve --link";
  }
}

function moreView() {
  const can = typeof Notification !== "undefined";
  const words = { granted: "You are notified when this tab is hidden.", denied: "This browser bars notifications: its settings for this page allow them.", default: "" };
  const asked = h("p", { role: "status", class: "quiet" }, can ? words[Notification.permission] : "This browser has no notifications here.");
  const ask = async () => asked.textContent = words[await Notification.requestPermission()];
  const findings = h("table", { class: "list" });
  const keys = [["j k", "move"], ["Enter", "open"], ["/", "filter"], ["a", "approve"], ["d", "deny; Enter confirms both"], ["?", "this page"]];
  return {
    title: "More", rows: () => [],
    el: h("div", {}, h("h1", {}, "More"), h("p", { class: "ways" }, h("a", { href: "/sessions" }, "Chats"), h("a", { href: "/api/v1/openapi.json" }, "HTTP interface")),
      h("h2", {}, "Notifications"), can ? h("button", { type: "button", onclick: ask }, "Notify me when a run needs me, fails or finishes") : null, asked,
      h("h2", {}, "Keys"), h("p", { class: "ways" }, keys.map(([key, what]) => h("span", {}, h("kbd", {}, key), ` ${what}`))),
      h("h2", {}, "This computer"), findings,
      h("p", {}, h("button", { type: "button", class: "quiet", onclick: async () => { await api("/session", { method: "DELETE", body: {} }); location.assign("/"); } }, "sign out")), h("p", { class: "quiet" }, `orchestrate ${console_.version}`, console_.read_only ? " · read-only" : "")),
    refresh: async () => fill(findings, (await api("/doctor")).findings.map((/** @type {any} */ f) => h("tr", {}, h("td", {}, f.name), h("td", {}, h("span", { class: f.ok ? "plus" : "quiet" }, f.ok ? "ok" : "no")), h("td", { class: "rest" }, f.detail, f.advice ? h("small", { class: "quiet" }, ` ${f.advice}`) : null)))),
  };
}

/** @param {string} path */
function viewOf(path) {
  const [, where, id, tab] = path.split("/");
  if (where === "runs" && id) return runView(id, tab || "", console_, live, go);
  if (where === "inbox") return inboxView(console_);
  if (where === "recipes") return recipesView(console_, go);
  if (where === "sessions") return id ? sessionView(decodeURIComponent(id), console_) : sessionsView(console_, go);
  if (where === "more") return moreView();
  return runsView(console_, go);
}

async function open() {
  view?.close?.();
  view = viewOf(location.pathname);
  const where = location.pathname.split("/")[1] || "runs";
  for (const a of document.querySelectorAll("body > nav a")) {
    if (a.getAttribute("href") === `/${where}`) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  document.title = `${view.title} · orchestrate`;
  app.className = "";
  const opened = view;
  try {
    await opened.refresh();
    // Who has gone on meanwhile is not brought back.
    if (view !== opened) return;
    fill(app, opened.el);
    opened.shown?.();
  } catch (error) { if (view === opened) fill(app, trouble(error)); }
}

/** @param {string} path */
function go(path) {
  history.pushState(null, "", path);
  scrollTo(0, 0);
  open().then(() => app.focus());
}

document.addEventListener("click", (event) => {
  const a = /** @type {any} */ (event.target)?.closest?.("a");
  if (!a || event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const url = new URL(a.href, location.href);
  if (url.origin !== location.origin || a.hasAttribute("download") || url.pathname.startsWith("/api/") || (url.pathname === location.pathname && url.hash)) return;
  event.preventDefault();
  go(url.pathname + url.search + url.hash);
});
addEventListener("popstate", open);

/** @type {any} */ let soon = null;
/** Runs that something happened in. @type {Set<string>} */ let news = new Set();
/** Many events in a moment are one look; a look that takes long is followed by a pause as long. @param {number} pause */
function look(pause) {
  soon = setTimeout(async () => {
    const runs = news;
    const begun = Date.now();
    news = new Set();
    try { await view?.onRun?.(runs); await badgeInbox(); } catch (error) { say(String(error)); }
    soon = null;
    if (news.size) look(Math.max(120, Date.now() - begun));
  }, pause);
}
/** @param {any} message */
function hear(message) {
  if (message.type === "events") view?.onEvents?.(message);
  else if (message.type === "log") view?.onLog?.(message);
  else if (message.type === "run") {
    news.add(message.run_id);
    if (!soon) look(120);
    if (["gate-opened", "run-ended"].includes(message.event)) notify(message);
  }
}

async function badgeInbox() {
  try {
    const { questions } = await api("/inbox?files=false");
    const link = document.querySelector('body > nav a[href="/inbox"]');
    if (link) fill(link, "Inbox", questions.length ? h("span", { class: "count", "aria-label": `${questions.length} wait` }, questions.length) : "");
  } catch { return; }
}

/** Only what needs a person, has failed or has finished; only when the tab is hidden. @param {any} message */
async function notify(message) {
  const { row } = await api(`/runs/${message.run_id}`);
  if (states.get(row.run_id) === row.state) return;
  states.set(row.run_id, row.state);
  const word = { "waits for you": "needs you", failed: "failed", completed: "finished" }[/** @type {string} */ (row.state)];
  if (!word) return;
  say(`${row.recipe} ${word}`);
  if (!document.hidden || typeof Notification === "undefined" || Notification.permission !== "granted") return;
  const told = new Notification(`${row.recipe} ${word}`, { body: row.reason || "", tag: row.run_id, icon: "/static/icon-192.png" });
  told.onclick = () => { focus(); go(`/runs/${row.run_id}`); };
}

/** @type {any} */ let pending = null;
document.addEventListener("keydown", (event) => {
  const target = /** @type {any} */ (event.target);
  if (event.isComposing || event.keyCode === 229 || event.ctrlKey || event.metaKey || event.altKey) return;
  if (["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName)) {
    if (event.key === "Escape") target.blur();
    return;
  }
  if (pending) {
    const { el, value, note } = pending;
    pending = null;
    note.remove();
    if (event.key === "Enter") { event.preventDefault(); el.answer(value); }
    return;
  }
  const rows = view?.rows?.() || [];
  const at = rows.findIndex((/** @type {any} */ r) => r === document.activeElement || r.contains(document.activeElement));
  if (event.key === "j" || event.key === "k") {
    const next = rows[Math.max(0, Math.min(rows.length - 1, at + (event.key === "j" ? 1 : at < 0 ? 1 : -1)))];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  } else if (event.key === "/") {
    event.preventDefault();
    /** @type {any} */ (app.querySelector('input[type="search"]'))?.focus();
  } else if (event.key === "?") go("/more");
  else if ((event.key === "a" || event.key === "d") && !console_?.read_only) {
    const asks = rows.filter((/** @type {any} */ r) => r.answer);
    const el = rows[at]?.answer ? rows[at] : asks.length === 1 ? asks[0] : null;
    if (!el) return;
    const value = event.key === "a" ? "approve" : "deny";
    if (!el.values.includes(value)) return;
    el.unfold();
    const note = h("p", { class: "note", role: "alert" }, `Enter to ${value}, any other key to leave it`);
    el.append(note);
    note.scrollIntoView({ block: "nearest" });
    pending = { el, value, note };
  }
});

async function begin() {
  await signIn();
  if (document.getElementById("sign-in-state")) return;
  app.tabIndex = -1;
  console_ = await api("/console");
  live = new Live(console_.version, hear, () => { view?.refresh?.(); badgeInbox(); });
  await open();
  badgeInbox();
  setInterval(() => !document.hidden && view?.tick?.(), 5000);
}
begin();
