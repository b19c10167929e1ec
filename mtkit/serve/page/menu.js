// A menu below a word.

const menu = document.getElementById("menu");
let opener = null;

// Open a menu; `pick(index)` is called for the item that is chosen, when the word has the focus again.
export function openMenu(word, items, pick) {
  opener = word;
  menu.replaceChildren(
    ...items.map(({ label, title, isChosen }, index) => {
      const item = document.createElement("button");
      item.type = "button";
      item.tabIndex = -1;
      item.setAttribute("role", "menuitemradio");
      item.setAttribute("aria-checked", String(isChosen));
      item.textContent = label;
      item.title = title;
      item.addEventListener("click", () => {
        closeMenu();
        pick(index);
      });
      return item;
    }),
  );
  [menu.lang, menu.dir] = [word.closest("[lang]").lang, getComputedStyle(word).direction];
  menu.hidden = false;
  const place = word.getBoundingClientRect();
  const { clientWidth, clientHeight } = document.documentElement;
  const hasRoom = place.bottom + menu.offsetHeight + 8 < clientHeight || place.top < menu.offsetHeight + 8;
  const top = hasRoom ? place.bottom + 4 : place.top - menu.offsetHeight - 4;
  const left = Math.max(8, Math.min(place.left, clientWidth - menu.offsetWidth - 8));
  menu.style.top = `${top + window.scrollY}px`;
  menu.style.left = `${left + window.scrollX}px`;
  menu.firstChild.focus({ preventScroll: hasRoom && place.bottom < clientHeight });
}

// Close the menu; the focus, if the menu has it, goes back to the word.
export function closeMenu() {
  if (menu.contains(document.activeElement)) opener.focus();
  menu.hidden = true;
}

menu.addEventListener("keydown", (event) => {
  const items = [...menu.children];
  const index = items.indexOf(document.activeElement);
  const next = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: -1 }[event.key];
  if (next !== undefined) items.at(next % items.length).focus();
  else if (["Escape", "Tab"].includes(event.key)) closeMenu();
  else return;
  event.preventDefault();
});

document.addEventListener("pointerdown", (event) => {
  if (!menu.contains(event.target)) closeMenu();
});
