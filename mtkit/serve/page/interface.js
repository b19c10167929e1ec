// The language of the interface: texts from its file, and names of languages and numbers as the browser writes them.

export const interfaceLanguage = document.documentElement.lang;

const texts = await (await fetch(`page/${interfaceLanguage}.json`)).json();
const names = new Intl.DisplayNames(interfaceLanguage, { type: "language", fallback: "none" });
const numbers = new Intl.NumberFormat(interfaceLanguage);

// The text of a key, with values in the place of their names in braces.
export function t(key, values = {}) {
  return texts[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

export function formatNumber(number) {
  return numbers.format(number);
}

// The code of a language as HTML has it (BCP 47): en_GB and eng-GB are en-GB; "" of a code that is none.
export function languageTag(code) {
  try {
    return Intl.getCanonicalLocales(code.replaceAll("_", "-"))[0] ?? "";
  } catch {
    return "";
  }
}

// The name of a language; `other` if the browser has none.
export function languageName(code, other = code) {
  const tag = languageTag(code);
  const name = (tag && names.of(tag)) ?? other;
  return name.charAt(0).toLocaleUpperCase(interfaceLanguage) + name.slice(1);
}

// The list of the languages of the interface; a choice is kept in a cookie, since the server fills in the page.
export function showInterfaceLanguages(select) {
  const codes = document.documentElement.dataset.languages.split(" ");
  const nameIn = (code) => new Intl.DisplayNames(code, { type: "language" }).of(code);
  select.replaceChildren(...codes.map((code) => new Option(nameIn(code), code)));
  [...select.options].forEach((option) => (option.lang = option.value));
  select.value = interfaceLanguage;
  select.addEventListener("change", () => {
    document.cookie = `mtkit_language=${select.value}; SameSite=Strict; Max-Age=${365 * 24 * 3600}; Path=${location.pathname}`;
    location.reload();
  });
}
