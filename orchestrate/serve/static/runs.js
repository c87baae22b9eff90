// @ts-check
/** The runs, newest first. */
import { ago, api, badge, breakable, fill, h, money, query, shortNames, took, why } from "./dom.js";

const MOST = 500;
const STATES = ["working", "waits for you", "waits for quota", "quiet", "nobody works on it", "completed", "failed", "cancelled", "damaged", "unknown"];

/** @param {any} console @param {(path: string) => void} go */
export function runsView(console, go) {
  const given = new URLSearchParams(location.search);
  const names = shortNames(console.workspaces);
  const pick = (/** @type {string} */ name, /** @type {string[]} */ values, shown = (/** @type {string} */ v) => v) => h("select", { "aria-label": name, onchange: again }, h("option", { value: "" }, `any ${name}`), values.map((v) => h("option", { value: v, selected: given.get(name) === v }, shown(v))));
  const text = h("input", { type: "search", "aria-label": "Filter", placeholder: "Filter: id, recipe, reason", value: given.get("text") || "", oninput: () => { clearTimeout(timer); timer = setTimeout(again, 250); } });
  const state = pick("state", STATES);
  const recipe = pick("recipe", given.get("recipe") ? [String(given.get("recipe"))] : []);
  const workspace = pick("workspace", console.workspaces, (w) => names.get(w) || w);
  const gone = h("div");
  const body = h("tbody");
  const more = h("button", { type: "button", class: "quiet", hidden: true, onclick: older }, "older runs");
  const empty = h("p", { class: "empty", hidden: true }, "There are no such runs. Start one: orchestrate run FILE, or see Recipes.");
  /** @type {any} */ let timer;
  /** @type {string | null} */ let next = null;
  /** @type {any[]} */ let rows = [];

  const filters = () => ({ state: state.value, recipe: recipe.value, workspace: workspace.value, text: text.value });
  function again() {
    history.replaceState(null, "", `/runs${query(filters())}`);
    refresh();
  }
  async function refresh() {
    const found = await api(`/runs${query({ ...filters(), limit: Math.min(200, Math.max(50, rows.length)) })}`);
    rows = found.runs;
    next = found.next;
    fill(gone, found.gone.map((/** @type {string} */ folder) => h("p", { class: "note" }, `The workspace ${folder} is gone.`)));
    show();
  }
  async function older() {
    const found = await api(`/runs${query({ ...filters(), cursor: next })}`);
    rows = [...rows, ...found.runs].slice(0, MOST);
    next = rows.length < MOST ? found.next : null;
    show();
  }
  /** A recipe can be picked once a run of it was listed. */
  function offer() {
    const known = new Set([...recipe.options].map((/** @type {any} */ o) => o.value));
    recipe.append(...[...new Set(rows.filter((r) => r.state !== "damaged").map((r) => r.recipe))].filter((name) => !known.has(name)).sort().map((name) => h("option", { value: name }, name)));
  }
  function show() {
    offer();
    const focused = /** @type {any} */ (document.activeElement)?.dataset?.run;
    fill(body, rows.map(row));
    more.hidden = !next;
    empty.hidden = rows.length > 0;
    if (focused) body.querySelector(`[data-run="${focused}"]`)?.focus();
  }
  function row(/** @type {any} */ r) {
    const told = r.note || why(r);
    const mark = [r.rehearsal ? "rehearsal" : "", r.run_step ? `step ${r.run_step}` : ""].filter(Boolean).join(", ");
    return h("tr", { tabindex: "0", "data-run": r.run_id, onclick: (/** @type {any} */ e) => e.target.tagName !== "A" && go(`/runs/${r.run_id}`), onkeydown: (/** @type {any} */ e) => e.key === "Enter" && go(`/runs/${r.run_id}`) },
      h("td", {}, badge(r.state), mark ? h("small", {}, " ", mark) : null, r.state === "quiet" ? h("small", {}, ` for ${took(r.quiet_ms)}`) : null),
      h("td", { class: "name" }, h("a", { href: `/runs/${r.run_id}` }, breakable(r.recipe)), h("small", {}, r.run_id, console.workspaces.length > 1 ? h("span", { title: r.workspace }, ` · ${names.get(r.workspace) || r.workspace}`) : "")),
      h("td", { class: "step" }, r.step || null, told ? h("small", {}, told) : null), h("td", { "data-label": "active" }, ago(r.last_activity)),
      h("td", { "data-label": "elapsed" }, took(r.elapsed_ms)), h("td", { "data-label": "cost" }, money(r.cost)));
  }
  const el = h("div", {}, h("h1", {}, "Runs"), h("form", { class: "filters", role: "search", onsubmit: (/** @type {any} */ e) => e.preventDefault() }, text, state, recipe, console.workspaces.length > 1 ? workspace : null),
    gone, h("table", { class: "runs" }, h("thead", {}, h("tr", {}, ["State", "Recipe", "Step", "Active", "Elapsed", "Cost"].map((t) => h("th", { scope: "col" }, t)))), body), empty, more);
  return { el, title: "Runs", refresh, onRun: refresh, rows: () => [...body.children], tick: () => (rows.some((r) => ["working", "quiet", "waits for quota"].includes(r.state)) ? refresh() : show()) };
}
