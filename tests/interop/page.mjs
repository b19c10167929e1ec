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
async function open(options = {}) {
  const context = await browser.newContext({ permissions: ["clipboard-read", "clipboard-write"], ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(20000);
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("dialog", (dialog) => errors.push(`dialog ${dialog.message()}`) && dialog.dismiss());
  page.on("request", (request) => request.url().startsWith(url) || outside.push(request.url()));
  await page.goto(url);
  await page.waitForFunction(() => document.querySelector("#target").options.length > 0);
  return page;
}

async function type(page, text) {
  await page.fill("#text", text);
  await page.waitForFunction(
    (typed) => {
      const shown = document.querySelector("#shown-source");
      return shown.textContent.trim() === typed.trim() && !document.querySelector("#translation").classList.contains("old");
    },
    text,
  );
}

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
await check("hover shows the alignment", async (expect) => {
  await page.hover("#translation .word");
  expect((await page.locator("#shown-source .linked").count()) > 0, "no source word is marked");
  await page.hover("h1");
  expect((await page.locator(".linked").count()) === 0, "a word stays marked");
});
await check("a click shows other words and goes on with one", async (expect) => {
  await type(page, "the dog sees a big cat");
  const before = await translation(page);
  await page.locator("#translation .word").first().click();
  await page.waitForSelector("#menu button");
  const words = await page.locator("#menu button").allTextContents();
  expect(words.length > 1, `only ${words}`);
  const other = words.find((word) => !before.startsWith(word));
  await page.locator("#menu button", { hasText: other }).first().click();
  await page.waitForFunction((word) => document.querySelector("#translation").textContent.startsWith(word), other);
  expect(await page.locator("#menu").isHidden(), "the menu stays");
});
await check("keyboard alone", async (expect) => {
  await type(page, "a dog sees a man");
  await page.focus("#translation .word");
  expect((await page.locator("#shown-source .linked").count()) > 0, "focus marks no source word");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#menu button:focus");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Escape");
  expect(await page.locator("#menu").isHidden(), "Escape does not close the menu");
  expect(await page.evaluate(() => document.activeElement.classList.contains("word")), "the focus is lost");
  await page.focus("#text");
  const seen = new Set();
  for (let i = 0; i < 60; i += 1) {
    await page.keyboard.press("Tab");
    seen.add(await page.evaluate(() => document.activeElement.id || document.activeElement.tagName));
  }
  for (const id of ["translation", "colour", "copy", "clear", "SUMMARY", "source", "swap", "target"])
    expect(seen.has(id), `Tab does not reach ${id}: ${[...seen]}`);
});
await check("confidence by colour", async (expect) => {
  await page.check("#colour");
  const marked = page.locator("#translation.coloured .low, #translation.coloured .middle");
  expect((await marked.count()) > 0, "no word is coloured");
  await page.uncheck("#colour");
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
  await page.locator("summary", { hasText: "Documents" }).click();
  const lines = Array.from({ length: 120 }, (_, i) => `<p>the dog ${i}</p>`).join("");
  await page.setInputFiles("#file", { name: "report.html", mimeType: "text/html", buffer: Buffer.from(lines) });
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.locator("#documents a").click(),
  ]);
  expect(download.suggestedFilename() === "report.de.html", download.suggestedFilename());
  await page.setInputFiles("#file", { name: "bad.docx", mimeType: "text/html", buffer: Buffer.from("no zip") });
  await page.waitForFunction(() => document.querySelector("#documents li span:last-child").textContent.length > 10);
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
  await page.waitForFunction(() => document.querySelector("#status").textContent.includes("German was detected"));
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
    await page.waitForFunction((n) => document.querySelector("#shown-source").textContent.includes(`dog ${n}`) &&
      !document.querySelector("#translation").classList.contains("old"), i + 49);
    const made = await page.evaluate(() =>
      [...document.querySelectorAll("#shown-source *, #translation *")].filter((each) => each.tagName !== "SPAN" || each.children.length).length);
    expect(made === 0, `${made} elements were made from text`);
  }
  expect(page.url() === `${url}/`, page.url());
});
await check("an error is one sentence", async (expect) => {
  await page.fill("#text", "x ".repeat(11000));
  await page.waitForSelector("#status.error");
  expect((await page.textContent("#status")).includes("20,000"), await page.textContent("#status"));
  errors.splice(0, errors.length, ...errors.filter((each) => !each.includes("413")));
});

for (const [name, options] of Object.entries({
  light: { colorScheme: "light" },
  dark: { colorScheme: "dark" },
  phone: { viewport: { width: 360, height: 700 }, colorScheme: "light", hasTouch: true },
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
    await other.check("#colour");
    for (const summary of await other.locator("summary:visible").all()) await summary.click();
    await other.evaluate(readFileSync(axe, "utf8"));
    const report = await other.evaluate(() => window.axe.run());
    for (const each of report.violations) expect(false, `${each.id}: ${each.nodes.map((node) => node.html).join(" ").slice(0, 300)}`);
    const overflow = await other.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(overflow <= 0, `${overflow} pixels beside the screen`);
    if (name === "right-to-left") expect((await other.getAttribute("#translation", "dir")) === "rtl", "no direction");
    await other.locator("#translation .word").first().hover();
    writeFileSync(`${pictures}/${name}.png`, await other.screenshot({ fullPage: true }));
    await other.context().close();
  });
}
await check("no error in the console", async (expect) => errors.forEach((each) => expect(false, each)));
await check("no request to anywhere else", async (expect) => outside.forEach((each) => expect(false, each)));
await browser.close();
console.log(JSON.stringify(results));
