// Documents: chosen, pasted, or dropped anywhere on the page, with their progress.

import { formatNumber, t } from "./interface.js";
import { ask, messageOf } from "./server.js";

const POLL = 500; // milliseconds between looks at a document
const list = document.getElementById("documents");
const dropHere = document.getElementById("drop-here");

// Listen for files; `fields()` gives the languages, model and glossary of a document.
export function listenToFiles(fields) {
  const take = (files) => [...files].forEach((file) => translateFile(file, fields()));
  const input = document.getElementById("file");
  input.addEventListener("change", () => {
    take(input.files);
    input.value = "";
  });
  const hasFiles = (event) => event.dataTransfer.types.includes("Files");
  const show = (isShown) => (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    dropHere.hidden = !isShown;
  };
  window.addEventListener("dragenter", show(true));
  window.addEventListener("dragover", show(true));
  window.addEventListener("dragleave", (event) => event.relatedTarget === null && show(false)(event));
  window.addEventListener("drop", (event) => {
    show(false)(event);
    if (hasFiles(event)) take(event.dataTransfer.files);
  });
  document.getElementById("text").addEventListener("paste", (event) => {
    if (!event.clipboardData.files.length) return;
    event.preventDefault();
    take(event.clipboardData.files);
  });
}

async function translateFile(file, fields) {
  const update = addDocument(file.name);
  const body = new FormData();
  body.append("file", file);
  Object.entries(fields).forEach(([name, value]) => body.append(name, value));
  let state = {};
  while (!state.done && !state.error) {
    let wait = POLL;
    try {
      state = await (state.id ? ask(`documents/${state.id}`) : ask("documents", { body }));
      update(state);
    } catch (error) {
      // a file is not sent again without an answer: the browser may be unable to read it, the server to take it
      const isTriedAgain = error.retryAfter && (state.id || error.status);
      if (isTriedAgain) wait = 1000 * error.retryAfter;
      else state = { error: error.message };
      update(isTriedAgain ? { ...state, busy: messageOf(error) } : state);
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

function element(tag, properties) {
  return Object.assign(document.createElement(tag), properties);
}

// A line of the list; returns a function that shows its state.
function addDocument(name) {
  const item = element("li");
  const bar = element("progress");
  bar.setAttribute("aria-label", name);
  const note = element("span", { className: "note", textContent: t("waiting") });
  note.setAttribute("role", "status");
  const remove = element("button", { type: "button", className: "icon", textContent: "×", title: t("remove", { name }) });
  remove.setAttribute("aria-label", t("remove", { name }));
  remove.hidden = true;
  remove.addEventListener("click", () => {
    item.remove();
    list.hidden = !list.children.length;
    document.getElementById("file").focus();
  });
  item.append(element("span", { className: "name", textContent: name }), bar, note, remove);
  list.prepend(item);
  list.hidden = false;
  return ({ lines, translated, done, path, error, busy }) => {
    if (lines) [bar.max, bar.value] = [lines, translated];
    const progress = lines ? t("lines", { translated: formatNumber(translated), lines: formatNumber(lines) }) : t("waiting");
    note.textContent = error ?? busy ?? progress;
    note.classList.toggle("error", Boolean(error));
    if (!done && !error) return;
    bar.remove();
    remove.hidden = false;
    if (!done) return;
    note.textContent = "";
    remove.before(element("a", { className: "button", href: path, textContent: t("download"), download: "" }));
  };
}
