// The page: asks for a translation as one types, and keeps the controls in step with it.

import { listenToFiles } from "./documents.js";
import { formatNumber, interfaceLanguage, languageName, languageTag, showInterfaceLanguages, t } from "./interface.js";
import { closeMenu, openMenu } from "./menu.js";
import { ask, messageOf, remember, remembered } from "./server.js";
import { listenToWords, mirrorText, showSentences } from "./words.js";

const byId = (id) => document.getElementById(id);
const [text, source, target, model, translation] = ["text", "source", "target", "model", "translation"].map(byId);
const WAIT = 150; // milliseconds after a key before the text is sent
const BLOCK = 2000; // characters of the lines of a request: a long text is shown part by part
const ANNOUNCED = 1500; // milliseconds of rest before a screen reader is given what has changed
const MAX_ANNOUNCED = 600; // characters
const FIRST_FORMATS = [".docx", ".pptx", ".xlsx", ".odt", ".epub", ".html", ".md", ".srt", ".po", ".txt"]; // named at once

let languages = []; // as /languages has them
let models = []; // as /models has them
let limit = Infinity; // characters
let answers = new Map(); // block of lines -> its answer, of the present languages, model, glossary and choices
let sentences = []; // that are shown
let spoken = ""; // language of the text: the chosen one, or the detected one
let before = ""; // the source before it was changed
let choices = new Map(); // sentence -> beginning of its translation that was chosen
let timer = 0;
let announcer = 0;
let request = null; // AbortController of the request under way

function showStatus(message, isError = false) {
  byId("status").textContent = message;
  byId("status").classList.toggle("error", isError);
}

function fill(select, codes, nameOf, chosen) {
  const options = codes.map((code) => new Option(nameOf(code), code));
  select.replaceChildren(...options);
  if (codes.includes(chosen)) select.value = chosen;
}

const nameOf = (code) => languageName(code, languages.find((each) => each.code === code)?.name);
const byName = (one, other) => nameOf(one).localeCompare(nameOf(other), interfaceLanguage);
const targetsOf = (code) => languages.find((each) => each.code === code)?.targets.filter((each) => each !== code) ?? [];
const isSource = (code) => targetsOf(code).length > 0;

// Offer the targets of the source, and the models of both, and swap if there is a way back.
function showTargets(chosen = target.value) {
  const codes = source.value === "auto" ? languages.flatMap(({ code }) => targetsOf(code)) : targetsOf(source.value);
  fill(target, [...new Set(codes)].sort(byName), nameOf, chosen);
  showModels();
}

function showModels(chosen = model.value) {
  const from = source.value === "auto" ? spoken : source.value;
  const served = models.filter((each) => (!from || each.sources.includes(from)) && each.targets.includes(target.value));
  fill(model, served.map(({ name }) => name), String, chosen);
  model.hidden = served.length < 2;
  const isSwappable = Boolean(from) && targetsOf(target.value).includes(from);
  byId("swap").disabled = !isSwappable;
  const names = { source: nameOf(target.value), target: nameOf(from) };
  byId("swap").title = isSwappable || !from ? t("swap") : t("no_way_back", names);
}

// The languages and the model of a request; a model is only named where there are several.
function direction() {
  const named = model.hidden ? {} : { model: model.value };
  return { source: source.value, target: target.value, ...named };
}

function glossary() {
  const lines = byId("glossary").value.split("\n").map((line) => line.split("=").map((part) => part.trim()));
  return lines.map((terms) => terms.filter(Boolean)).filter((terms) => terms.length);
}

function keepState() {
  remember(sessionStorage, "page", JSON.stringify({ q: text.value, ...direction() }));
}

// The controls that depend on the text; the languages of one that is longer than the screen stay in view.
function showText() {
  mirrorText();
  document.body.classList.toggle("long", text.scrollHeight > window.innerHeight);
  const count = text.value.length;
  byId("count").textContent = t("count", { count: formatNumber(count), limit: formatNumber(limit) });
  byId("clear").hidden = !count;
  byId("link").disabled = !text.value.trim();
}

function showAnswer(answer, isWhole) {
  sentences = answer.sentences;
  spoken = answer.source;
  translation.classList.toggle("old", !isWhole);
  const changed = showSentences(sentences);
  const [from, to] = answer.rightToLeft.map((isRightToLeft) => (isRightToLeft ? "rtl" : "ltr"));
  const sides = [[text, spoken, from], [byId("mirror"), spoken, from], [translation, target.value, to]];
  sides.forEach(([element, code, dir]) => Object.assign(element, { lang: languageTag(code), dir }));
  const share = formatNumber(Math.round(answer.detected));
  if (answer.detected !== null) source.options[0].textContent = t("detected", { language: nameOf(spoken), share });
  const length = sentences.reduce((sum, each) => sum + each.source.length, 0);
  const progress = t("progress", { share: formatNumber(Math.round((100 * length) / text.value.length)) });
  const message = spoken === target.value ? t("already", { language: nameOf(spoken) }) : "";
  showStatus(isWhole ? message : progress);
  byId("copy").disabled = false;
  showModels();
  clearTimeout(announcer);
  announcer = setTimeout(() => {
    byId("announcement").lang = translation.lang;
    byId("announcement").textContent = changed.slice(0, MAX_ANNOUNCED);
  }, ANNOUNCED);
}

// Forget a detected language: the text is in the chosen one, or in one that the next answer names.
function forgetDetected() {
  spoken = source.value === "auto" ? "" : source.value;
  source.options[0].textContent = t("detect");
}

function showNothing() {
  sentences = [];
  forgetDetected();
  translation.classList.remove("old");
  showSentences([]);
  text.dir = byId("mirror").dir = "auto";
  showStatus("");
  byId("copy").disabled = true;
  showModels();
}

async function translate() {
  clearTimeout(timer);
  closeMenu();
  request?.abort();
  keepState();
  const q = text.value;
  if (!q.trim()) {
    showNothing();
    return;
  }
  const count = q.length > limit ? [...q].length : q.length;
  if (count > limit) {
    showStatus(t("too_long", { count: formatNumber(count), limit: formatNumber(limit) }), true);
    return;
  }
  const mine = (request = new AbortController());
  translation.classList.add("old");
  try {
    await translateBlocks(blocksOf(q), mine);
  } catch (error) {
    if (mine === request && error.name !== "AbortError") showError(error);
  }
}

// Whole lines of a text, together about as long as a request has them.
function blocksOf(q) {
  const blocks = [""];
  for (const line of q.match(/[^\n]*\n|[^\n]+$/g)) {
    if (blocks.at(-1) && blocks.at(-1).length + line.length > BLOCK) blocks.push("");
    blocks[blocks.length - 1] += line;
  }
  return blocks;
}

// Translate blocks one after another, except those that are known, and show each when it is there.
async function translateBlocks(blocks, mine) {
  const chosen = [...choices].map(([sentence, beginning]) => ({ source: sentence, beginning }));
  const body = { ...direction(), glossary: glossary(), choices: chosen };
  const whole = { sentences: [] };
  for (const [index, q] of blocks.entries()) {
    const isLast = index === blocks.length - 1;
    const isKnown = answers.has(q);
    const answer = answers.get(q) ?? (await ask("sentences", { body: { ...body, q }, signal: mine.signal }));
    if (mine !== request) return;
    answers.set(q, answer);
    if (index === 0) {
      Object.assign(whole, answer, { sentences: [] });
      if (isSource(answer.source)) body.source = answer.source; // also of the other blocks
    }
    whole.sentences.push(...answer.sentences);
    if (isLast || !isKnown) showAnswer(whole, isLast);
  }
  answers = new Map(blocks.map((q) => [q, answers.get(q)]));
}

function showError(error) {
  if (error.retryAfter) timer = setTimeout(translate, 1000 * error.retryAfter);
  const needsKey = error.status === 403 && !byId("key-details").hidden;
  if (needsKey) byId("key-details").open = true;
  showStatus(needsKey ? t("key_wrong") : messageOf(error), true);
}

// Show why a word and its sentence are marked, offer other words in its place, and go on with the chosen one.
async function chooseWord(word, place) {
  const { source: sentence } = sentences[place.sentence];
  const string = word.parentElement.textContent;
  const range = document.createRange();
  range.setStart(word.parentElement, 0);
  range.setEndBefore(word);
  const beginning = range.toString().trim();
  const now = request;
  showStatus([word.title, word.parentElement.title].filter(Boolean).join(" · "));
  try {
    const body = { q: sentence, ...direction(), source: spoken, beginning };
    const { words } = await ask("next_words", { body });
    if (now !== request) return;
    if (!words.length) {
      showStatus(t("no_other_words"));
      return;
    }
    const items = words.map((each) => ({
      label: each.word,
      title: each.translation,
      isChosen: each.word === word.textContent,
    }));
    openMenu(word, items, (index) => {
      choices.set(sentence.trim(), `${beginning} ${words[index].word}`.trim());
      answers = new Map();
      translate();
    });
  } catch (error) {
    showStatus(error.message, true);
  }
}

// Translate again after a change of languages, model or glossary, for which no chosen word counts.
function restart() {
  choices = new Map();
  answers = new Map();
  translate();
}

// A code of the list that a link means: itself, or without its region.
function known(code, codes) {
  const wanted = code.toLowerCase().replaceAll("_", "-");
  const isLike = (each, other) => each.toLowerCase().replaceAll("_", "-") === other;
  return codes.find((each) => isLike(each, wanted)) ?? codes.find((each) => isLike(each, wanted.split("-")[0]));
}

// What the page begins with: the link, else what this tab had before, else the first direction.
function startingState(settings) {
  const link = new URLSearchParams(location.search);
  const kept = JSON.parse(remembered(sessionStorage, "page") || "{}");
  const given = ["q", "source", "target", "model"].some((name) => link.has(name));
  const wanted = given ? { ...kept, ...(link.has("q") ? {} : { q: kept.q }), ...Object.fromEntries(link) } : kept;
  const { source: first, target: second } = settings.language;
  return { q: "", model: "", ...wanted, source: wanted.source ?? first.code, target: wanted.target ?? second.code };
}

async function start() {
  byId("glossary").value = remembered(localStorage, "glossary");
  byId("key").value = remembered(localStorage, "key");
  byId("doubt").checked = remembered(localStorage, "doubt") !== "no";
  showGlossary();
  showDoubt();
  try {
    const [settings, ...lists] = await Promise.all(["frontend/settings", "languages", "models"].map((path) => ask(path)));
    [languages, models] = lists;
    limit = settings.charLimit;
    byId("key-details").hidden = !settings.keyRequired;
    byId("key-details").open = settings.keyRequired && !byId("key").value;
    const names = settings.supportedFilesFormat.map((name) => name.slice(name.lastIndexOf(".")));
    const suffixes = [...new Set(names)];
    byId("file").accept = suffixes.join(",");
    const first = FIRST_FORMATS.filter((each) => suffixes.includes(each));
    byId("formats").textContent = t("formats", { formats: first.join(" "), more: suffixes.length - first.length });
    byId("all-formats").textContent = suffixes.join(" ");
    const state = startingState(settings);
    const codes = languages.map(({ code }) => code).filter(isSource).sort(byName);
    fill(source, ["auto", ...codes], (code) => (code === "auto" ? t("detect") : nameOf(code)), known(state.source, ["auto", ...codes]) ?? "auto");
    before = source.value;
    forgetDetected();
    showTargets();
    target.value = known(state.target, [...target.options].map(({ value }) => value)) ?? target.value;
    showModels(state.model);
    if (!text.value) text.value = state.q; // unless somebody has typed already
  } catch (error) {
    showStatus(messageOf(error), true);
    if (error.retryAfter) setTimeout(start, 1000 * error.retryAfter);
    return;
  }
  showText();
  await translate();
}

function showGlossary() {
  const count = glossary().length;
  byId("terms").textContent = count ? t("glossary_terms", { count: formatNumber(count) }) : "";
}

function showDoubt() {
  translation.classList.toggle("doubted", byId("doubt").checked);
}

async function copy(string, message) {
  try {
    await navigator.clipboard.writeText(string);
  } catch { // a page over HTTP has no clipboard of its own
    const area = document.createElement("textarea");
    area.value = string;
    area.className = "unseen";
    const focused = document.activeElement;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    focused.focus();
  }
  showStatus(message);
}

text.addEventListener("input", () => {
  clearTimeout(timer);
  request?.abort();
  request = null;
  if (location.search) history.replaceState(null, "", location.pathname); // the text is another one than the link's
  showText();
  timer = setTimeout(translate, WAIT);
});
source.addEventListener("change", () => {
  const old = before;
  before = source.value;
  forgetDetected();
  showTargets(source.value === target.value ? old : target.value);
  restart();
});
target.addEventListener("change", () => {
  showModels();
  restart();
});
model.addEventListener("change", restart);
byId("swap").addEventListener("click", () => {
  const [from, to] = [target.value, spoken];
  if (sentences.length) text.value = translation.textContent;
  source.value = before = from;
  forgetDetected();
  showTargets(to);
  showText();
  restart();
});
byId("clear").addEventListener("click", () => {
  text.value = "";
  text.focus();
  showText();
  restart();
});
byId("copy").addEventListener("click", () => copy(translation.textContent, t("copied")));
byId("link").addEventListener("click", () => {
  const fields = new URLSearchParams({ ...direction(), q: text.value });
  copy(`${location.origin}${location.pathname}?${fields}`, t("link_copied"));
});
byId("doubt").addEventListener("change", () => {
  remember(localStorage, "doubt", byId("doubt").checked ? "yes" : "no");
  showDoubt();
});
byId("glossary").addEventListener("input", showGlossary);
byId("glossary").addEventListener("change", () => {
  remember(localStorage, "glossary", byId("glossary").value);
  restart();
});
byId("key").addEventListener("change", () => {
  remember(localStorage, "key", byId("key").value);
  restart();
});
byId("languages").addEventListener("submit", (event) => event.preventDefault());
showInterfaceLanguages(byId("interface"));
listenToWords(chooseWord);
listenToFiles(() => ({ ...direction(), glossary: JSON.stringify(glossary()) }));
await start();
