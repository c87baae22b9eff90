// @ts-check
/** What waits for a person, answered from the list with the evidence in view. */
import { colouredText } from "./ansi.js";
import { changedFiles } from "./changes.js";
import { api, badge, bounded, breakable, clock, fill, h, say, trouble, twice } from "./dom.js";

/**
 * The panel of one question. It belongs to this very question: another one gets another panel.
 * `place` says where it stands: in the list it names its run, and beside what a tab shows it is folded.
 * @param {any} one @param {() => void} done @param {boolean} readOnly @param {"list" | "run" | "tab"} place
 */
export function panel(one, done, readOnly, place) {
  const said = h("div", { "aria-live": "polite" });
  const message = h("input", { "aria-label": "Message", placeholder: "Message (optional)", maxlength: "5000" });
  const answer = async (/** @type {string} */ value) => {
    fill(said, "recording …");
    try {
      const told = await api(`/runs/${one.run_id}/answer`, { body: { question: one.id, digest: one.digest, value, message: message.value } });
      const what = `${one.about}: ${told.decision}${told.already ? " already" : ""}${told.resumed ? ", the run goes on" : ""}`;
      fill(said, told.note ? h("p", { class: "note" }, told.note) : what);
      say(what);
      setTimeout(done, 300);
    } catch (/** @type {any} */ error) {
      const winner = error.problem?.winner;
      fill(said, trouble(error), winner ? h("p", {}, `It was ${winner.decision} by ${winner.by}.`) : null);
      if (winner) setTimeout(done, 3000);
    }
  };
  const seen = one.evidence;
  const count = seen.files.length + seen.files_left_out;
  const parts = [
    h("pre", { class: "text ask", tabindex: "0" }, colouredText(bounded(one.text))),
    seen.answer ? h("details", { open: true }, h("summary", {}, `${seen.step} answered`), h("pre", { class: "text", tabindex: "0" }, colouredText(bounded(seen.answer)))) : null,
    seen.check ? h("p", {}, `check of ${seen.step}: ${seen.check}`) : null,
    count ? h("details", { open: true }, h("summary", {}, `${count} changed ${count === 1 ? "file" : "files"}${seen.files_since ? ` since ${seen.files_since}` : ""}`), changedFiles(one.run_id, seen.files, "gate")) : null,
    seen.files_unknown ? h("p", { class: "quiet" }, "Changed: ", seen.files_unknown) : null,
    h("p", { class: "quiet" }, [seen.cost, one.expires_at ? `without an answer by ${clock(one.expires_at)}: ${one.default}` : "", one.at_terminal ? "it also asks at a terminal" : ""].filter(Boolean).join(" · ")),
    readOnly ? h("p", { class: "quiet" }, "This console only looks.") : h("div", { class: "answer" }, message, h("div", { class: "buttons" },
      one.choices.map((/** @type {any} */ c) => {
        const isNo = c.value === "deny" || c.value === "cancel";
        return h("span", { class: "choice" }, isNo ? twice(c.value, `really ${c.value}?`, () => answer(c.value), "bad") : h("button", { type: "button", class: "good", onclick: () => answer(c.value) }, c.value), h("small", {}, c.then));
      }))),
    said];
  const asked = ["Asks: ", one.about];
  const fold = place === "tab" ? h("details", {}, h("summary", {}, h("strong", {}, asked), " ", h("span", { class: "quiet" }, one.text.trim().split("\n")[0].slice(0, 120))), parts) : null;
  const el = h("article", { class: "card question", tabindex: "0", "data-key": `${one.id}.${one.digest}` },
    fold || [h("h2", {}, place === "list" ? [h("a", { href: `/runs/${one.run_id}` }, breakable(one.recipe)), " · ", one.about] : asked), parts]);
  /** Nothing is answered whose evidence is folded away. */
  el.unfold = () => { if (fold) fold.open = true; };
  el.answer = answer;
  el.values = one.choices.map((/** @type {any} */ c) => c.value);
  return el;
}

/** @param {any} console */
export function inboxView(console) {
  const list = h("div", { class: "cards" });
  const el = h("div", {}, h("h1", {}, "Inbox"), list);
  const refresh = async () => {
    const { questions } = await api("/inbox");
    /** @type {Map<string, Element>} */
    const kept = new Map([...list.children].map((c) => [/** @type {any} */ (c).dataset.key, c]));
    fill(list, questions.length ? questions.slice(0, 100).map((/** @type {any} */ q) => kept.get(`${q.id}.${q.digest}`) || panel(q, refresh, console.read_only, "list")) : h("p", { class: "empty" }, "Nothing waits for you."));
  };
  return { el, title: "Inbox", refresh, onRun: refresh, rows: () => [...list.querySelectorAll(".question")] };
}
export { badge };
