// The page: asks the server for translations as one types, and shows them.

import { addDocument, closeMenu, fillLanguages, openMenu, showSentences, showStatus } from "./view.js";

const byId = (id) => document.getElementById(id);
const WAIT = 150; // milliseconds after a key before the text is sent
const POLL = 500; // milliseconds between looks at a document

let languages = [];
let limit = Infinity;
let sentences = [];
let spoken = ""; // language of the text: the chosen one, or the detected one
let rightToLeft = [false, false];
let timer = 0;
let asked = null; // AbortController of the request under way
let generation = 0;

async function ask(path, body, options = {}) {
  const key = byId("key").value;
  const headers = { ...(key && { Authorization: `Bearer ${key}` }), ...(body && { "Content-Type": "application/json" }) };
  const request = { headers, ...(body && { method: "POST", body: JSON.stringify(body) }), ...options };
  const response = await fetch(path, request);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error ?? response.statusText);
  return answer;
}

function direction() {
  return { source: byId("source").value, target: byId("target").value };
}

function glossary() {
  const lines = byId("glossary").value.split("\n").map((line) => line.split("=").map((part) => part.trim()));
  return lines.map((terms) => terms.filter(Boolean)).filter((terms) => terms.length);
}

function show() {
  showSentences(sentences, rightToLeft, chooseWord);
}

// Translate the text; the translation of sentence number `sentence` begins with `beginning`.
async function translate(sentence, beginning) {
  clearTimeout(timer);
  closeMenu();
  asked?.abort();
  const q = byId("text").value;
  byId("count").textContent = `${q.length.toLocaleString()} of ${limit.toLocaleString()} characters`;
  generation += 1;
  if (!q.trim()) {
    sentences = [];
    showStatus("");
    show();
    return;
  }
  asked = new AbortController();
  byId("translation").classList.add("old");
  try {
    const fixed = sentence === undefined ? {} : { sentence, beginning };
    const answer = await ask("sentences", { q, ...direction(), glossary: glossary(), ...fixed }, { signal: asked.signal });
    ({ sentences, rightToLeft, source: spoken } = answer);
    const isRead = languages.some(({ code }) => code === spoken);
    const note = isRead ? "" : " No model reads it: the text stays as it is.";
    const share = Math.round(answer.detected);
    showStatus(answer.detected === null ? "" : `${nameOf(spoken)} was detected (${share}%).${note}`);
    byId("translation").classList.remove("old");
    show();
  } catch (error) {
    if (error.name !== "AbortError") showStatus(error.message, true);
  }
}

// Offer other words in place of one, and go on with the one that is chosen.
async function chooseWord(word, sentence, index) {
  const { source, target } = sentences[sentence];
  const words = [...target.matchAll(/\S+/g)];
  const beginning = target.slice(0, words[index].index).trim();
  const now = generation;
  try {
    const answer = await ask("next_words", { q: source, source: spoken, target: byId("target").value, beginning });
    if (now !== generation) return;
    const found = answer.words;
    if (!found.length) return;
    openMenu(word, found.map((each) => each.word), (chosen) => {
      translate(sentence, `${beginning} ${found[chosen].word}`.trim());
    });
  } catch (error) {
    showStatus(error.message, true);
  }
}

function nameOf(code) {
  const name = languages.find((each) => each.code === code)?.name;
  return name ?? new Intl.DisplayNames("en", { type: "language" }).of(code);
}

function showTargets() {
  const source = byId("source").value;
  const targets = languages.find(({ code }) => code === source)?.targets ?? languages.flatMap((each) => each.targets);
  const known = [...new Set(targets)].filter((code) => code !== source);
  fillLanguages(byId("target"), known.map((code) => ({ code, name: nameOf(code) })), byId("target").value);
}

async function translateFile(file) {
  const update = addDocument(file.name);
  const form = new FormData();
  const fields = { file, ...direction(), glossary: JSON.stringify(glossary()) };
  Object.entries(fields).forEach(([name, value]) => form.append(name, value));
  try {
    let state = await ask("documents", null, { method: "POST", body: form });
    update(state);
    while (!state.done && !state.error) {
      await new Promise((resolve) => setTimeout(resolve, POLL));
      state = await ask(`documents/${state.id}`);
      update(state);
    }
  } catch (error) {
    update({ error: error.message });
  }
}

async function start() {
  byId("key").value = localStorage.getItem("mtkit key") ?? "";
  byId("glossary").value = localStorage.getItem("mtkit glossary") ?? "";
  try {
    const settings = await ask("frontend/settings");
    languages = await ask("languages");
    limit = settings.charLimit;
    byId("key-details").hidden = !settings.keyRequired;
    byId("file").accept = settings.supportedFilesFormat.map((name) => name.slice(name.lastIndexOf("."))).join(",");
    fillLanguages(byId("source"), [{ code: "auto", name: "Detect" }, ...languages], settings.language.source.code);
    showTargets();
    byId("target").value = settings.language.target.code;
  } catch (error) {
    showStatus(error.message, true);
  }
  await translate();
}

byId("text").addEventListener("input", () => {
  clearTimeout(timer);
  generation += 1;
  timer = setTimeout(translate, WAIT);
});
byId("source").addEventListener("change", () => {
  showTargets();
  translate();
});
byId("target").addEventListener("change", () => translate());
byId("glossary").addEventListener("change", () => {
  localStorage.setItem("mtkit glossary", byId("glossary").value);
  translate();
});
byId("key").addEventListener("change", () => {
  localStorage.setItem("mtkit key", byId("key").value);
  translate();
});
byId("swap").addEventListener("click", () => {
  const target = byId("target").value;
  const source = byId("source").value === "auto" ? spoken : byId("source").value;
  if (!source || !languages.some(({ code }) => code === target)) return;
  byId("source").value = target;
  showTargets();
  byId("target").value = source;
  byId("text").value = sentences.map((each) => each.target).join("");
  translate();
});
byId("clear").addEventListener("click", () => {
  byId("text").value = "";
  byId("text").focus();
  translate();
});
byId("copy").addEventListener("click", async () => {
  getSelection().selectAllChildren(byId("translation"));
  await (navigator.clipboard?.writeText(byId("translation").textContent) ?? document.execCommand("copy")); // over HTTP
  showStatus("Copied.");
});
byId("colour").addEventListener("change", (event) => {
  byId("translation").classList.toggle("coloured", event.target.checked);
});
byId("file").addEventListener("change", (event) => {
  [...event.target.files].forEach(translateFile);
  event.target.value = "";
});
document.addEventListener("pointerdown", (event) => {
  if (!byId("menu").contains(event.target)) closeMenu();
});
byId("languages").addEventListener("submit", (event) => event.preventDefault());
start();
