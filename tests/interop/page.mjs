// Checks of the page: node page.mjs URL BROWSER PICTURES AXE; prints {check: [problem, ...]} as JSON.

import { readFileSync, writeFileSync } from "node:fs";
import { chromium } from "playwright-core";

const [url, executablePath, pictures, axe] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const results = {};

const check = async (name, work) => {
  const problems = [];
  try {
    await work((isRight, problem) => isRight || problems.push(problem));
  } catch (error) {
    problems.push(String(error).slice(0, 600));
  }
  results[name] = problems;
};

const errors = [];
const outside = [];
async function open(options = {}, path = "", prepare = () => {}) {
  const context = await browser.newContext({ permissions: ["clipboard-read", "clipboard-write"], ...options });
  const page = await context.newPage();
  await prepare(page);
  page.setDefaultTimeout(20000);
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("dialog", (dialog) => errors.push(`dialog ${dialog.message()}`) && dialog.dismiss());
  page.on("request", (request) => request.url().startsWith(url) || outside.push(request.url()));
  await page.goto(`${url}/${path}`);
  await page.waitForFunction(() => document.querySelector("#target").options.length > 0);
  return page;
}

const settled = (page, text) =>
  page.waitForFunction((typed) => {
    const mirrored = [...document.querySelectorAll("#mirror > span")].map((each) => each.textContent).join("");
    return mirrored === typed && !document.querySelector("#translation").classList.contains("old");
  }, text);

async function type(page, text) {
  await page.fill("#text", text);
  await settled(page, text);
}

const focused = (page) => page.evaluate(() => document.activeElement.textContent);
const marked = (page) => page.evaluate(() => [...(CSS.highlights.get("linked") ?? [])].map(String));
const translation = (page) => page.textContent("#translation");
const select = (page, id, value) => page.selectOption(id, value);
const page = await open();
const TEXT = "the dog sees a big cat. The man finds a house.";

await check("translates as one types", async (expect) => {
  await type(page, TEXT);
  const sent = await (await page.request.post(`${url}/translate`, { data: { q: TEXT, source: "en", target: "de" } })).json();
  expect((await translation(page)) === sent.translatedText, `${await translation(page)} is not ${sent.translatedText}`);
});
await check("only the sentence that changes is translated again", async (expect) => {
  const misses = async () => Number((await (await page.request.get(`${url}/metrics`)).text()).match(/^mtkit_cache_misses_total (\S+)/m)[1]);
  await type(page, `${TEXT} a red dog`);
  const before = await misses();
  await type(page, `${TEXT} a red dog and a cat`);
  expect((await misses()) - before === 1, `${(await misses()) - before} sentences`);
});
await check("the source stands once, and in front of its marks", async (expect) => {
  const shown = (await page.locator("main").innerText()).split("big cat").length - 1;
  expect(shown === 1, `the text stands ${shown} times`); // in the mirror, which a screen reader does not have
  expect((await page.getAttribute("#mirror", "aria-hidden")) === "true", "a screen reader has the mirror");
  expect((await page.locator("#mirror").evaluate((each) => getComputedStyle(each).color)) === "rgba(0, 0, 0, 0)", "not clear");
  const gap = await page.evaluate(() => {
    const [text, mirror] = ["text", "mirror"].map((id) => document.getElementById(id));
    return [text.scrollHeight - text.clientHeight, text.clientWidth - mirror.clientWidth];
  });
  expect(gap.every((each) => each === 0), `textarea and mirror differ: ${gap}`);
});
await check("hover shows the alignment", async (expect) => {
  await page.hover("#translation .word");
  expect((await marked(page)).length > 0, "no source word is marked");
  await page.hover("h1");
  expect((await marked(page)).length === 0 && (await page.locator(".linked").count()) === 0, "a word stays marked");
  const box = await page.locator("#text").boundingBox();
  await page.mouse.move(box.x + 30, box.y + 32); // over the first word
  expect((await marked(page))[0] === "the", `${await marked(page)} is marked`);
  expect((await page.locator("#translation .current").count()) > 0, "no sentence of the translation is marked");
  await page.mouse.move(0, 0);
  await page.focus("#text");
  await page.keyboard.press("Control+Home");
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => String([...(CSS.highlights.get("linked") ?? [])][0]) === "the"); // of the text cursor
});
await check("a click shows other words, goes on with one, and keeps the focus", async (expect) => {
  await type(page, "the dog sees a big cat");
  const before = await translation(page);
  await page.locator("#translation .word").first().click();
  await page.waitForSelector("#menu button");
  const words = await page.locator("#menu button").allTextContents();
  expect(words.length > 1, `only ${words}`);
  const other = words.find((word) => !before.startsWith(word));
  await page.locator("#menu button", { hasText: other }).first().click();
  await page.waitForFunction((word) => document.querySelector("#translation").textContent.startsWith(word), other);
  await settled(page, "the dog sees a big cat");
  expect(await page.locator("#menu").isHidden(), "the menu stays");
  expect((await focused(page)) === other, `the focus is at ${await focused(page)}`);
  await page.focus("#text");
  await page.keyboard.press("Control+End");
  await page.keyboard.type("\na man");
  await settled(page, "the dog sees a big cat\na man");
  expect((await translation(page)).startsWith(other), "the chosen word is lost when the text goes on");
});
await check("keyboard alone", async (expect) => {
  await type(page, "a dog sees a man. The dog sees a cat.");
  expect((await page.locator("#translation [tabindex='0']").count()) === 1, "the words have not one tab stop");
  await page.focus("#translation [tabindex='0']");
  expect((await marked(page)).length > 0, "focus marks no source word");
  const words = await page.locator("#translation .word").allTextContents();
  const steps = [["ArrowRight", 1], ["End", words.length - 1], ["ArrowLeft", words.length - 2], ["Home", 0], ["ArrowDown", 0]];
  for (const [key, index] of steps) {
    await page.keyboard.press(key);
    expect((await focused(page)) === words[index], `${key} leads to ${await focused(page)}, not ${words[index]}`);
  }
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#menu button:focus");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Escape");
  expect(await page.locator("#menu").isHidden(), "Escape does not close the menu");
  expect((await focused(page)) === words[1], "the focus is lost");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#menu button:focus");
  await page.keyboard.press("End");
  const other = await focused(page);
  await page.keyboard.press("Enter");
  await page.waitForFunction((word) => document.activeElement.textContent === word, other);
  await page.focus("#text");
  const seen = [];
  for (let i = 0; i < 40; i += 1) {
    await page.keyboard.press("Tab");
    seen.push(await page.evaluate(() => document.activeElement.id || document.activeElement.className || document.activeElement.tagName));
  }
  for (const id of ["doubt", "copy", "clear", "link", "file", "SUMMARY", "source", "swap", "target", "interface", "A"])
    expect(seen.includes(id), `Tab does not reach ${id}: ${seen}`);
  const stops = seen.slice(0, seen.indexOf("source")).filter((each) => each.startsWith("word"));
  expect(stops.length === 1, `${stops.length} tab stops in the translation`);
});
await check("doubtful words have a legend", async (expect) => {
  const doubtful = page.locator("#translation.doubted .low, #translation.doubted .middle");
  expect((await doubtful.count()) > 0, "no word is marked");
  expect(/\d/.test(await doubtful.first().getAttribute("title")), "no probability");
  expect(await page.locator("#legend").isVisible(), "no legend");
  const word = doubtful.first();
  await word.click();
  await page.waitForSelector("#menu button");
  const [reason, status] = [await word.getAttribute("title"), await page.textContent("#status")];
  expect(status.startsWith(reason), `a tap says ${status}, not ${reason}`);
  await page.keyboard.press("Escape");
  await page.uncheck("#doubt");
  expect((await doubtful.count()) === 0 && (await page.locator("#legend").isHidden()), "still marked");
  await page.check("#doubt");
  const typed = await page.inputValue("#text");
  await page.fill("#text", "");
  await page.waitForSelector("#legend", { state: "hidden" });
  await type(page, typed);
});
await check("languages of the text", async (expect) => {
  await select(page, "#source", "fr");
  await select(page, "#target", "en");
  await type(page, "un chien");
  const of = (id) => page.evaluate((each) => [document.querySelector(each).lang, document.querySelector(each).dir], id);
  expect(String(await of("#text")) === "fr,ltr" && String(await of("#translation")) === "en,ltr", `${await of("#text")}`);
  await select(page, "#source", "en");
  await select(page, "#target", "de");
});
await check("models of a direction", async (expect) => {
  await type(page, TEXT);
  const first = await translation(page);
  const names = await page.locator("#model option").allTextContents();
  expect(String(names) === "en-de,special", `${names}`);
  await select(page, "#model", "special");
  await page.waitForFunction((text) => document.querySelector("#translation").textContent !== text, first);
  await settled(page, TEXT);
  const data = { q: TEXT, source: "en", target: "de", model: "special" };
  const sent = await (await page.request.post(`${url}/translate`, { data })).json();
  expect((await translation(page)) === sent.translatedText, "not the translation of the model");
  await select(page, "#target", "fr");
  expect(await page.locator("#model").isHidden(), "a route has a choice of models");
  await select(page, "#target", "de");
  await select(page, "#model", "en-de");
});
await check("a link, and a reload", async (expect) => {
  await type(page, "a dog & a cat");
  await page.click("#link");
  const link = await page.evaluate(() => navigator.clipboard.readText());
  const other = await open({}, link.slice(url.length + 1));
  await settled(other, "a dog & a cat");
  await type(other, "a man");
  await select(other, "#target", "fr");
  await other.reload();
  await settled(other, "a man");
  expect((await other.inputValue("#target")) === "fr", "the languages are lost");
  await other.context().close();
  const third = await open({}, "?q=le+chien&source=FR-ca&target=xx");
  await settled(third, "le chien");
  expect((await third.inputValue("#source")) === "fr", await third.inputValue("#source"));
  await third.context().close();
});
await check("no swap without a way back", async (expect) => {
  const languages = [{ code: "en", name: "English", targets: ["en", "de"] }, { code: "de", name: "German", targets: ["de"] }];
  const prepare = (each) => each.route("**/languages", (route) => route.fulfill({ json: languages }));
  const other = await open({}, "?source=en&target=de", prepare);
  expect(await other.locator("#swap").isDisabled(), "enabled");
  expect((await other.getAttribute("#swap", "title")).includes("German"), await other.getAttribute("#swap", "title"));
  await other.context().close();
  expect(await page.locator("#swap").isEnabled(), "disabled");
});
for (const [locale, language, title] of [["de-AT", "de", "Übersetzung"], ["fr", "fr", "Traduction"], ["es-MX", "es", "Traducción"], ["sw", "en", "Translation"]])
  await check(`interface in ${locale}`, async (expect) => {
    const other = await open({ locale });
    expect((await other.getAttribute("html", "lang")) === language, await other.getAttribute("html", "lang"));
    expect((await other.textContent("h1")).includes(title), await other.textContent("h1"));
    await type(other, TEXT);
    await other.evaluate(readFileSync(axe, "utf8"));
    const report = await other.evaluate(() => window.axe.run());
    for (const each of report.violations) expect(false, `${each.id}: ${each.nodes[0].html.slice(0, 300)}`);
    await Promise.all([other.waitForNavigation(), select(other, "#interface", "es")]);
    await settled(other, TEXT);
    expect((await other.getAttribute("html", "lang")) === "es", "the choice is not kept");
    await other.context().close();
  });
await check("a long text", async (expect) => {
  const text = Array.from({ length: 900 }, (_, i) => `a dog in house ${i % 30}.`).join("\n");
  const other = await open();
  other.setDefaultTimeout(120000);
  await type(other, text);
  expect((await translation(other)).split("\n").length === 900, "lines are missing");
  expect((await other.locator("#translation [tabindex='0']").count()) === 1, "more than one tab stop");
  const gap = await other.evaluate(() => document.querySelector("#text").scrollHeight - document.querySelector("#mirror").clientHeight);
  expect(gap === 0, `textarea and mirror differ by ${gap} pixels`);
  await other.locator("#translation .word").nth(600).hover();
  writeFileSync(`${pictures}/long.png`, await other.screenshot());
  await other.context().close();
});
await check("glossary", async (expect) => {
  await page.locator("summary", { hasText: "Glossary" }).click();
  await page.fill("#glossary", "dog = Hund");
  await page.locator("#glossary").blur();
  await page.waitForFunction(() => document.querySelector("#translation").textContent.includes("Hund"));
  await page.fill("#glossary", "");
  await page.locator("#glossary").blur();
  await page.waitForFunction(() => !document.querySelector("#translation").textContent.includes("Hund"));
});
await check("documents with progress", async (expect) => {
  const lines = Array.from({ length: 120 }, (_, i) => `<p>the dog ${i}</p>`).join("");
  await page.setInputFiles("#file", { name: "report.html", mimeType: "text/html", buffer: Buffer.from(lines) });
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.locator("#documents a").click(),
  ]);
  expect(download.suggestedFilename() === "report.de.html", download.suggestedFilename());
  await page.setInputFiles("#file", { name: "bad.docx", mimeType: "text/html", buffer: Buffer.from("no zip") });
  await page.waitForFunction(() => document.querySelector("#documents .error")?.textContent.length > 10);
  await page.evaluate(() => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File(["the dog"], "dropped.txt"));
    const send = (type) => document.querySelector("footer").dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
    send("dragenter");
    window.wasShown = !document.querySelector("#drop-here").hidden;
    send("drop");
  });
  expect(await page.evaluate(() => window.wasShown), "nothing says that files can be dropped");
  await page.waitForFunction(() => document.querySelector("#documents li").textContent.includes("dropped.txt"));
  await page.locator("#documents li").first().locator("a").waitFor();
  for (let left = 3; left > 0; left -= 1) await page.locator("#documents .icon").first().click();
  expect(await page.locator("#documents").isHidden(), "lines stay");
});
await check("a document goes on when the server answers again", async (expect) => {
  const other = await open();
  const [errorsBefore, asked] = [errors.length, []];
  await other.route("**/documents", (route) =>
    asked.push("file") === 1 ? route.fulfill({ status: 503, headers: { "Retry-After": "1" }, json: { error: "busy" } }) : route.continue());
  await other.route("**/documents/*", (route) => (asked.push("progress") === 3 ? route.abort() : route.continue()));
  await other.setInputFiles("#file", { name: "a.html", mimeType: "text/html", buffer: Buffer.from("<p>the dog</p>") });
  const note = (words) => other.waitForFunction((each) => document.querySelector("#documents .note").textContent.includes(each), words);
  await note("The server is busy. Trying again in 1 s");
  await note("The server does not answer. Trying again in 5 s");
  await other.locator("#documents a").waitFor();
  expect((await other.textContent("#documents .note")) === "", await other.textContent("#documents .note"));
  expect(String(asked).startsWith("file,file,progress,progress"), `${asked}`);
  const caused = errors.splice(errorsBefore); // the browser names both failures
  expect(caused.length === 2 && caused.every((each) => each.startsWith("Failed to load")), `${caused}`);
  await other.context().close();
});
await check("a document that no server takes is not said to be tried again", async (expect) => {
  const other = await open();
  const errorsBefore = errors.length;
  await other.route("**/documents", (route) => route.abort());
  await other.setInputFiles("#file", { name: "a.html", mimeType: "text/html", buffer: Buffer.from("<p>the dog</p>") });
  await other.locator("#documents .note.error").waitFor();
  const note = await other.textContent("#documents .note");
  expect(note === "The server does not answer.", note);
  errors.splice(errorsBefore); // the browser names the failure
  await other.context().close();
});
await check("copy, clear, exchange", async (expect) => {
  await type(page, "a dog");
  const before = await translation(page);
  await page.click("#copy");
  expect((await page.evaluate(() => navigator.clipboard.readText())) === before, "the clipboard has something else");
  await select(page, "#source", "fr");
  await select(page, "#target", "en");
  await page.click("#swap");
  expect((await page.inputValue("#source")) === "en" && (await page.inputValue("#target")) === "fr", "not exchanged");
  await page.click("#clear");
  expect((await translation(page)) === "", "not cleared");
  await select(page, "#target", "de");
});
await check("detection", async (expect) => {
  await select(page, "#source", "auto");
  await type(page, "Das ist ein ganz gewöhnlicher Satz über das Wetter in den Bergen.");
  await page.waitForFunction(() => document.querySelector("#source option").textContent.startsWith("German – detected"));
  await page.waitForFunction(() => document.querySelector("#status").textContent.includes("in German already"));
  await page.locator("#translation .word").first().click().catch(() => {});
  await select(page, "#source", "en");
  await select(page, "#target", "de");
});
await check("hostile strings stay text", async (expect) => {
  const seeds = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"><svg onload=alert(1)>", "javascript:alert(1)",
    "{{7*7}} ${7*7}", "<!--", "]]>", "&lt;b&gt;", "\u202e\u2066 rtl", "'; DROP TABLE x; --", "<style>*{display:none}</style>",
    "<a href='https://example.org'>x</a>", "\u0000\u0007", "<iframe src=https://example.org>", "%00%0d%0aX: y", "`${alert(1)}`",
    "<base href=https://example.org>", "<meta http-equiv=refresh content=0>", "<math><mtext><b>", "\ud83d\ude00\u200d",
  ];
  const strings = Array.from({ length: 500 }, (_, i) => `${seeds[i % seeds.length]} dog ${i} ${seeds[(i * 7 + 3) % seeds.length]}`);
  for (let i = 0; i < strings.length; i += 50) {
    const text = strings.slice(i, i + 50).join("\n");
    await page.fill("#text", text);
    await page.waitForFunction((n) => [...document.querySelectorAll("#mirror > span")].some((each) => each.textContent.includes(`dog ${n}`)) &&
      !document.querySelector("#translation").classList.contains("old"), i + 49);
    const made = await page.evaluate(() =>
      [...document.querySelectorAll("#mirror *, #translation *")].filter((each) => each.tagName !== "SPAN").length);
    expect(made === 0, `${made} elements were made from text`);
  }
  expect(page.url() === `${url}/`, page.url());
});
await check("an error is one sentence", async (expect) => {
  await page.fill("#text", "x ".repeat(11000));
  await page.waitForSelector("#status.error");
  expect((await page.textContent("#status")).includes("20,000"), await page.textContent("#status"));
});

// so high that a picture of the whole page resizes nothing, which would end the emulation of touch
const PHONE = { viewport: { width: 360, height: 1300 }, isMobile: true, hasTouch: true };
for (const [name, options] of Object.entries({
  light: { colorScheme: "light" },
  dark: { colorScheme: "dark" },
  phone: { ...PHONE, colorScheme: "light" },
  "phone-dark": { ...PHONE, colorScheme: "dark" },
  "right-to-left": { colorScheme: "light" },
})) {
  await check(`accessibility: ${name}`, async (expect) => {
    const other = await open(options);
    if (name === "right-to-left")
      await other.route("**/sentences", async (route) => {
        const answer = await (await route.fetch()).json();
        await route.fulfill({ json: { ...answer, rightToLeft: [false, true] } });
      });
    await type(other, TEXT);
    for (const summary of await other.locator("summary:visible").all()) await summary.click();
    await other.evaluate(readFileSync(axe, "utf8"));
    const report = await other.evaluate(() => window.axe.run());
    for (const each of report.violations) expect(false, `${each.id}: ${each.nodes.map((node) => node.html).join(" ").slice(0, 300)}`);
    const overflow = await other.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(overflow <= 0, `${overflow} pixels beside the screen`);
    const help = await other.locator(".of-desks:visible").count();
    expect(help === (options.isMobile ? 0 : 2), `${help} texts about keyboards and files to drop`);
    if (name === "right-to-left") expect((await other.getAttribute("#translation", "dir")) === "rtl", "no direction");
    if (name === "right-to-left") {
      await other.focus("#translation .word");
      await other.keyboard.press("ArrowLeft");
      const words = await other.locator("#translation .word").allTextContents();
      expect((await focused(other)) === words[1], "the left arrow does not lead to the next word");
      const [all, last] = await Promise.all(["#translation", "#translation .word:focus"].map((each) => other.locator(each).boundingBox()));
      expect(last.x + last.width > all.x + all.width - 60, "the text does not stand at the right");
    }
    await other.locator("#translation .word").first().hover();
    writeFileSync(`${pictures}/${name}.png`, await other.screenshot({ fullPage: true }));
    await other.context().close();
  });
}
for (const [name, options] of Object.entries({
  docs: { colorScheme: "light" },
  "docs-phone": { viewport: { width: 360, height: 700 }, colorScheme: "dark" },
}))
  await check(`documentation of the interface: ${name}`, async (expect) => {
    const other = await open(options);
    await other.click("nav a");
    await other.waitForSelector("article");
    await other.evaluate(readFileSync(axe, "utf8"));
    const report = await other.evaluate(() => window.axe.run());
    for (const each of report.violations) expect(false, `${each.id}: ${each.nodes[0].html.slice(0, 300)}`);
    const overflow = await other.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(overflow <= 0, `${overflow} pixels beside the screen`);
    expect((await other.locator("script").count()) === 0, "it needs a script");
    writeFileSync(`${pictures}/${name}.png`, await other.screenshot());
    await other.context().close();
  });
await check("no error in the console", async (expect) => errors.forEach((each) => expect(false, each)));
await check("no request to anywhere else", async (expect) => outside.forEach((each) => expect(false, each)));
await browser.close();
console.log(JSON.stringify(results));
