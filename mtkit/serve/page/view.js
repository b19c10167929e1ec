// What the page shows: words of both sides, and a menu. Text from the server is only ever text, never markup.

const byId = (id) => document.getElementById(id);
const LOW = 0.3;
const MIDDLE = 0.6;

// The spans of a text's words and the white space between them, added to a parent; returns the spans.
function addWords(parent, text, attributes) {
  const words = [];
  for (const part of text.match(/\s+|\S+/g) ?? []) {
    if (/^\s/.test(part)) {
      parent.append(part);
      continue;
    }
    const span = document.createElement("span");
    span.className = "word";
    span.textContent = part;
    attributes(span, words.length);
    words.push(span);
    parent.append(span);
  }
  return words;
}

function link(words, others, pairs, side) {
  words.forEach((word, index) => {
    const linked = pairs.filter((pair) => pair[side] === index).map((pair) => others[pair[1 - side]]);
    const show = (isOn) => [word, ...linked].forEach((each) => each?.classList.toggle("linked", isOn));
    word.addEventListener("pointerenter", () => show(true));
    word.addEventListener("pointerleave", () => show(false));
    word.addEventListener("focus", () => show(true));
    word.addEventListener("blur", () => show(false));
  });
}

// Show sentences side by side; `choose(word, sentence, index)` is called for a word that is clicked or entered.
export function showSentences(sentences, rightToLeft, choose) {
  const source = byId("shown-source");
  const target = byId("translation");
  source.replaceChildren();
  target.replaceChildren();
  [source.dir, target.dir] = rightToLeft.map((isRight) => (isRight ? "rtl" : "ltr"));
  byId("text").dir = source.dir;
  source.hidden = !sentences.some((each) => each.target.trim());
  sentences.forEach((sentence, number) => {
    const space = /\S/.test(sentence.source) && number ? sentence.source.match(/^\s*/)[0] : "";
    source.append(space);
    target.append(space);
    const words = addWords(source, sentence.source.slice(space.length), () => {});
    const translated = addWords(target, sentence.target.trimStart() || sentence.target, (span, index) => {
      const confidence = sentence.confidence[index] ?? 1;
      span.tabIndex = 0;
      span.setAttribute("role", "button");
      span.setAttribute("aria-haspopup", "menu");
      if (confidence < MIDDLE) span.classList.add(confidence < LOW ? "low" : "middle");
      span.addEventListener("click", () => choose(span, number, index));
      span.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          choose(span, number, index);
        }
      });
    });
    link(words, translated, sentence.alignment, 0);
    link(translated, words, sentence.alignment, 1);
  });
}

// A menu below a word; `pick(index)` is called for the item that is chosen.
export function openMenu(word, items, pick) {
  const menu = byId("menu");
  menu.replaceChildren();
  items.forEach((item, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("role", "menuitem");
    button.textContent = item;
    button.addEventListener("click", () => {
      closeMenu();
      pick(index);
    });
    menu.append(button);
  });
  const place = word.getBoundingClientRect();
  menu.hidden = false;
  menu.style.top = `${place.bottom + window.scrollY + 2}px`;
  menu.style.left = `${Math.max(4, Math.min(place.left, document.documentElement.clientWidth - menu.offsetWidth - 4)) + window.scrollX}px`;
  menu.firstChild?.focus();
  menu.onkeydown = (event) => {
    const buttons = [...menu.children];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      buttons[(buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length].focus();
    } else if (event.key === "Escape" || event.key === "Tab") {
      event.preventDefault();
      closeMenu();
      word.focus();
    }
  };
}

export function closeMenu() {
  byId("menu").hidden = true;
}

export function showStatus(text, isError = false) {
  byId("status").textContent = text;
  byId("status").classList.toggle("error", isError);
}

export function fillLanguages(select, languages, chosen) {
  select.replaceChildren(...languages.map(({ code, name }) => new Option(name, code)));
  if (languages.some(({ code }) => code === chosen)) select.value = chosen;
}

// A line of the list of documents; returns a function that shows its progress.
export function addDocument(name) {
  const item = document.createElement("li");
  const bar = document.createElement("progress");
  const note = document.createElement("span");
  const label = document.createElement("span");
  label.textContent = name;
  bar.setAttribute("aria-label", name);
  item.append(label, bar, note);
  byId("documents").prepend(item);
  return ({ lines, translated, done, path, error }) => {
    if (lines) [bar.max, bar.value] = [lines, translated];
    note.textContent = error ?? (done ? "" : lines ? `${translated} of ${lines} lines` : "waiting");
    if (done || error) bar.remove();
    if (done) {
      const anchor = document.createElement("a");
      anchor.href = path;
      anchor.textContent = "Download";
      anchor.download = "";
      item.append(anchor);
    }
  };
}
