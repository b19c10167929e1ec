// Checks of a page that is one file: node file.mjs FILE BROWSER PICTURES AXE; prints {check: [problem, ...]} as JSON.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [file, executablePath, pictures, axe] = process.argv.slice(2);
const address = pathToFileURL(file).href;
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const phone = { width: 390, height: 800 };
const views = {
  light: { colorScheme: "light" },
  dark: { colorScheme: "dark" },
  phone: { viewport: phone },
  "without scripts": { javaScriptEnabled: false },
};
const results = {};
for (const [name, options] of Object.entries(views)) {
  const problems = (results[name] = []);
  const context = await browser.newContext({ bypassCSP: true, ...options });
  const page = await context.newPage();
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("dialog", (dialog) => problems.push(`dialog ${dialog.message()}`) && dialog.dismiss());
  page.on("request", (request) => request.url() === address || problems.push(`request of ${request.url()}`));
  await page.goto(address);
  await page.screenshot({ path: `${pictures}/${name.replace(" ", "-")}.png`, fullPage: true });
  if (options.javaScriptEnabled === false) {
    if ((await page.locator("main").innerText()).length < 100) problems.push("the page is empty");
    continue;
  }
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (wide > 0) problems.push(`${wide} pixels wider than the screen`);
  await page.evaluate(readFileSync(axe, "utf8"));
  const { violations } = await page.evaluate(() => axe.run());
  problems.push(...violations.map((each) => `${each.id}: ${each.nodes.slice(0, 3).map((node) => node.html)}`));
}
const strict = await (await browser.newContext()).newPage(); // under the policy of the page itself
results.policy = [];
strict.on("console", (message) => results.policy.push(message.text()));
await strict.goto(address);
await strict.emulateMedia({ media: "print" });
await strict.screenshot({ path: `${pictures}/print.png`, fullPage: true });
await browser.close();
process.stdout.write(JSON.stringify(results));
