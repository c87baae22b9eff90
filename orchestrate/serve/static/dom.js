// @ts-check
/** Elements, requests and words that all views share. Text is always text: nothing here makes HTML of it. */

/**
 * @param {string} tag @param {Record<string, any>} [attrs] @param {...any} children
 * @returns {any}
 */
export function h(tag, attrs = {}, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(attrs)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else if (name === "class") el.className = value;
    else if (name in el && typeof value !== "string") /** @type {any} */ (el)[name] = value;
    else el.setAttribute(name, value === true ? "" : String(value));
  }
  el.append(...nodes(children));
  return el;
}

/** @param {Element} el @param {...any} children */
export const fill = (el, ...children) => el.replaceChildren(...nodes(children));

/** @param {any[]} children */
const nodes = (children) => children.flat(9).filter((c) => c !== null && c !== undefined && c !== false).map((c) => (typeof c === "string" ? honest(c) : c));

/** Text that reads as it is: what turns the direction around, or is not seen at all, is named as on a terminal. @param {string} text */
export const honest = (text) => text.replace(/[\u200b\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/gu, (c) => `<U+${Number(c.codePointAt(0)).toString(16).toUpperCase().padStart(4, "0")}>`);

/** A refusal of the server, with its own words. */
export class Refusal extends Error {
  /** @param {number} status @param {any} problem */
  constructor(status, problem) {
    super(problem.detail || `the server answered ${status}`);
    this.status = status;
    this.problem = problem;
  }
}

/** @param {string} path @param {{method?: string, body?: any, headers?: Record<string, string>}} [how] */
export async function api(path, how = {}) {
  /** @type {Record<string, string>} */
  const sent = how.body === undefined ? {} : { "content-type": "application/json" };
  const answer = await fetch(`/api/v1${path}`, {
    method: how.method || (how.body === undefined ? "GET" : "POST"),
    headers: { ...sent, ...how.headers },
    body: how.body === undefined ? undefined : JSON.stringify(how.body),
    credentials: "same-origin",
  });
  const kind = answer.headers.get("content-type") || "";
  const found = kind.includes("json") ? await answer.json() : await answer.text();
  if (answer.status === 401) location.assign("/");
  if (!answer.ok) throw new Refusal(answer.status, kind.includes("json") ? found : {});
  return found;
}

/** @param {Record<string, any>} given */
export function query(given) {
  const known = Object.entries(given).filter(([, v]) => v !== "" && v !== null && v !== undefined && v !== false);
  return known.length ? "?" + new URLSearchParams(known.map(([k, v]) => [k, String(v)])) : "";
}

/** @param {number | null | undefined} ms */
export function took(ms) {
  if (ms === null || ms === undefined) return "";
  const s = Math.round(ms / 1000);
  if (ms < 10000) return `${(ms / 1000).toFixed(1)}s`;
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${String(s % 60).padStart(2, "0")}s`;
  return `${Math.floor(s / 3600)}h${String(Math.floor((s % 3600) / 60)).padStart(2, "0")}m`;
}

/** @param {string | null} at */
export function ago(at) {
  if (!at) return "";
  const s = Math.max(0, (Date.now() - Date.parse(at)) / 1000);
  for (const [unit, size] of /** @type {[string, number][]} */ ([["d", 86400], ["h", 3600], ["m", 60]])) if (s >= 2 * size) return `${Math.floor(s / size)}${unit} ago`;
  return `${Math.floor(s)}s ago`;
}

/** @param {{usd: number | null, unknown: number} | null} cost */
export function money(cost) {
  if (!cost) return "";
  const known = cost.usd === null ? "" : `$${cost.usd.toFixed(2)}`;
  if (!cost.unknown) return known;
  return known ? `~${known}, ${cost.unknown} unknown` : `${cost.unknown} unknown`;
}

/** Folders by as much of the end of each path as tells it from the others. @param {string[]} paths @returns {Map<string, string>} */
export function shortNames(paths) {
  const end = (/** @type {string} */ path, /** @type {number} */ n) => path.split("/").filter(Boolean).slice(-n).join("/");
  return new Map(paths.map((path) => {
    let n = 1;
    while (n < 9 && paths.some((other) => other !== path && end(other, n) === end(path, n))) n++;
    return [path, end(path, n) || path];
  }));
}

/** Why a run stands where it does; nothing where its state says it all. @param {any} row */
export function why(row) {
  if (row.waits?.until) return `until ${clock(row.waits.until)}`;
  if (row.waits) return row.waits.words;
  return ["completed", "_end", row.status, row.state].includes(row.reason) ? "" : row.reason || "";
}

/** By this computer's clock, with the day if that is another one than today. @param {string} at */
export function clock(at) {
  const then = new Date(at);
  const isToday = then.toDateString() === new Date().toDateString();
  return then.toLocaleString([], { ...(isToday ? {} : { weekday: "short", day: "numeric", month: "short" }), hour: "2-digit", minute: "2-digit" });
}

const MOST_TEXT = 40000;
/** A long text is cut in its middle. @param {string} text */
export function bounded(text) {
  if (text.length <= MOST_TEXT) return text;
  const half = MOST_TEXT / 2;
  return `${text.slice(0, half)}\n… ${text.length - MOST_TEXT} characters …\n${text.slice(-half)}`;
}

/** Tells people who listen to the page. @param {string} text */
export function say(text) {
  const el = document.getElementById("said");
  if (el) el.textContent = text;
}

/** A refusal; of a definition with each of its mistakes. @param {any} error */
export const trouble = (error) => h("div", { class: "note bad", role: "alert" }, error.message, error.problem?.hint ? ` (${error.problem.hint})` : "", mistakes(error.problem?.errors?.diagnostics || error.problem?.diagnostics || []));

/** @param {any[]} found */
const mistakes = (found) => (found.length ? h("ul", {}, found.slice(0, 50).map((d) => h("li", {}, h("code", {}, `${d.file}:${d.line}:${d.column}`), ` ${d.severity} ${d.code}: ${d.message}${d.hint ? ` (${d.hint})` : ""}`))) : null);

/** A command with a button that copies it. @param {string} command */
export function copyable(command) {
  const button = h("button", { type: "button", class: "quiet", "aria-label": `Copy: ${command}`, onclick: async () => {
    await navigator.clipboard.writeText(command);
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  } }, "copy");
  return h("span", { class: "command" }, h("code", {}, command), button);
}

/** A button that needs a second tap. @param {string} label @param {string} sure @param {() => void} work */
export function twice(label, sure, work, cls = "") {
  const button = h("button", { type: "button", class: cls, onclick: () => {
    if (button.dataset.sure) return work();
    button.dataset.sure = "1";
    button.textContent = sure;
    setTimeout(() => { delete button.dataset.sure; button.textContent = label; }, 5000);
  } }, label);
  return button;
}

/** A path that is broken after a slash before it is broken inside a name. @param {string} path */
export const breakable = (path) => path.split("/").flatMap((part, i) => (i ? ["/", h("wbr", {}), part] : [part]));
/** @param {string} state */
export const badge = (state) => h("span", { class: `state ${state.replaceAll(" ", "-")}` }, state);
