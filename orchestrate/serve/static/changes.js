// @ts-check
/** Files that have changed: how many lines of each, and behind a tap what has changed in it. */
import { api, fill, h, query, trouble } from "./dom.js";

/** @param {string} run @param {any[]} files @param {string} since */
export function changedFiles(run, files, since) {
  return h("ul", { class: "plain files" }, files.map((f) => {
    const body = h("div", {});
    const counts = f.added === null ? "" : [h("span", { class: "plus" }, `+${f.added}`), " ", h("span", { class: "minus" }, `-${f.removed}`), " "];
    const load = async () => {
      if (body.firstChild) return;
      fill(body, "asking git …");
      try {
        const { hunks } = await api(`/runs/${run}/changes/file${query({ path: f.path, since, committed: f.committed })}`);
        fill(body, h("pre", { class: "text diff", tabindex: "0" }, hunks.trimEnd().split("\n").map(line)));
      } catch (error) { fill(body, trouble(error)); }
    };
    const state = f.committed ? "committed" : f.during_run ? "not committed" : "not committed, changed before";
    return h("li", {}, h("details", { ontoggle: load }, h("summary", {}, counts, h("code", {}, f.path), " ", h("small", { class: "quiet" }, `${f.what}, ${state}`)), body));
  }));
}

/** What each visit of a step has changed, by the run's checkpoints. @param {string} run @param {any[]} steps */
export function changedSteps(run, steps) {
  if (!steps.length) return null;
  return [h("h2", {}, "By step"), h("ul", { class: "plain steps-changed" }, steps.map((s) => {
    const body = h("div", {});
    const load = async () => {
      if (body.firstChild) return;
      fill(body, "asking git …");
      try {
        const told = await api(`/runs/${run}/changes/step${query({ step: s.step })}`);
        const more = told.left_out ? h("p", { class: "quiet" }, `${told.left_out} characters more`) : null;
        fill(body, told.notes.map((/** @type {string} */ n) => h("p", { class: "note" }, n)), h("pre", { class: "text diff", tabindex: "0" }, told.patch.trimEnd().split("\n").map(line)), more);
      } catch (error) { fill(body, trouble(error)); }
    };
    const files = `${s.files} ${s.files === 1 ? "file" : "files"}`;
    return h("li", {}, h("details", { ontoggle: load }, h("summary", {}, h("code", {}, s.step), " ", h("small", { class: "quiet" }, files)), body));
  }))];
}

/** @param {string} text */
function line(text) {
  const kind = { "+": "plus", "-": "minus", "@": "at" }[text[0]];
  return kind ? h("span", { class: kind }, text + "\n") : text + "\n";
}
