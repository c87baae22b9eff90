// @ts-check
/** Recipes: what there is, a form from its inputs, a dry run, and a start that names the folder. */
import { api, fill, h, query, trouble } from "./dom.js";

/** @param {any} console @param {(path: string) => void} go */
export function recipesView(console, go) {
  const at = new URLSearchParams(location.search);
  const list = h("div", { class: "cards" });
  const chosen = h("div");
  const filter = h("input", { type: "search", "aria-label": "Filter", placeholder: "Filter recipes", oninput: show });
  const workspace = h("select", { "aria-label": "workspace", onchange: refresh }, console.workspaces.map((/** @type {string} */ w) => h("option", { value: w, selected: w === at.get("workspace") }, w)));
  const el = h("div", {}, h("h1", {}, "Recipes"), h("div", { class: "filters" }, filter, console.workspaces.length > 1 ? workspace : null), chosen, list);
  /** @type {any[]} */ let recipes = [];
  async function refresh() {
    if (!recipes.length || workspace.value !== console.workspaces[0]) recipes = (await api(`/recipes${query({ workspace: workspace.value })}`)).recipes;
    show();
    const id = at.get("id");
    if (id && !chosen.children.length) open(id);
  }
  function show() {
    const word = filter.value.toLowerCase();
    fill(list, recipes.filter((r) => `${r.id} ${r.title} ${r.description}`.toLowerCase().includes(word)).slice(0, 200).map((r) => h("article", { class: "card" }, h("h2", {}, h("a", { href: `/recipes?id=${encodeURIComponent(r.id)}`, onclick: (/** @type {any} */ e) => { e.preventDefault(); e.stopPropagation(); open(r.id); } }, r.title)), h("p", {}, r.error || r.description), h("p", { class: "quiet" }, [r.id, r.dialect, r.origin].filter(Boolean).join(" · ")))));
  }
  async function open(/** @type {string} */ id) {
    history.replaceState(null, "", `/recipes${query({ id, workspace: console.workspaces.length > 1 ? workspace.value : "" })}`);
    try { fill(chosen, await form(id)); } catch (error) { fill(chosen, trouble(error)); }
    chosen.scrollIntoView({ block: "start" });
  }
  async function form(/** @type {string} */ id) {
    const told = await api(`/recipe${query({ id, workspace: workspace.value })}`);
    const said = h("div", { "aria-live": "polite" });
    const fields = told.inputs.filter((/** @type {any} */ i) => !i.secret).map((/** @type {any} */ i) => {
      const value = i.default === null || i.default === undefined ? "" : typeof i.default === "string" ? i.default : JSON.stringify(i.default);
      const name = `in-${i.name}`;
      const values = i.enum?.length ? i.enum : i.type === "boolean" && value ? [true, false] : null;
      const input = values ? h("select", { id: name }, values.map((/** @type {any} */ v) => h("option", { value: String(v), selected: String(v) === value }, String(v)))) : h("input", { id: name, value, required: i.required, type: ["integer", "number"].includes(i.type) ? "number" : "text", step: "any" });
      return { input, name: i.name, value, el: h("p", {}, h("label", { for: name }, i.name, i.required ? " *" : "", i.description ? h("small", {}, ` ${i.description}`) : null), input) };
    });
    const secrets = told.inputs.filter((/** @type {any} */ i) => i.secret).map((/** @type {any} */ i) => h("p", { class: "note" }, `${i.name} is a secret: set ${i.variable} where serve runs.`));
    const isMachine = told.dialect === "machine";
    const agent = h("input", { id: "agent", placeholder: "as configured" });
    const session = h("input", { id: "session", placeholder: "a new session", value: at.get("session") || "" });
    const body = () => {
      /** @type {any} */ const sent = { recipe: id, workspace: told.workspace };
      const inputs = fields.filter((/** @type {any} */ f) => f.input.value !== f.value || f.input.required).map((/** @type {any} */ f) => [f.name, f.input.value]);
      if (inputs.length) sent.inputs = Object.fromEntries(inputs);
      if (agent.value) sent.backend = agent.value;
      if (isMachine && session.value) sent.session = session.value;
      return sent;
    };
    const key = crypto.randomUUID ? crypto.randomUUID() : String(Math.random());
    async function look() {
      try {
        const dry = await api("/recipe/dry-run", { body: body() });
        fill(said, dry.notes.map((/** @type {string} */ n) => h("p", { class: "note" }, n)), h("p", {}, h("strong", {}, `Starts in ${dry.workspace}`)), h("ul", {}, dry.lines.map((/** @type {string} */ l) => h("li", {}, l))), h("pre", { class: "text", tabindex: "0" }, [...dry.estimate_lines, ...(dry.most_steps ? [`at most ${dry.most_steps} steps`] : [])].join("\n")), h("details", {}, h("summary", {}, "What would run"), h("pre", { class: "text", tabindex: "0" }, dry.text)), console.read_only ? h("p", { class: "quiet" }, "This console only looks.") : h("button", { type: "button", class: "good", onclick: start }, "Start it there"));
      } catch (error) { fill(said, trouble(error)); }
    }
    async function start() {
      fill(said, "starting …");
      try { const { run_id } = await api("/runs", { body: body(), headers: { "idempotency-key": key } }); go(`/runs/${run_id}`); } catch (error) { fill(said, trouble(error)); }
    }
    const drawn = await api(`/recipe/graph${query({ id, workspace: workspace.value })}`).catch(() => "");
    const svg = drawn && document.importNode(new DOMParser().parseFromString(drawn, "image/svg+xml").documentElement, true);
    return h("article", { class: "card" }, h("h2", {}, told.title || told.name), h("p", {}, told.description),
      h("form", { oninput: () => fill(said), onsubmit: (/** @type {any} */ e) => { e.preventDefault(); look(); } }, fields.map((/** @type {any} */ f) => f.el), secrets, told.dialect === "workflow" ? null : h("p", {}, h("label", { for: "agent" }, "agent"), agent), isMachine ? h("p", {}, h("label", { for: "session" }, "in this session"), session) : null, h("button", {}, "Dry run")), said,
      svg ? h("details", {}, h("summary", {}, "Graph"), h("div", { class: "graph", tabindex: "0", role: "region", "aria-label": "Graph of the recipe" }, svg)) : null);
  }
  return { el, title: "Recipes", refresh, rows: () => [...list.querySelectorAll("a")] };
}
