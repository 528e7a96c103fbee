// Opens pages in Chromium, narrow and wide, light and dark, and writes what was seen
// as one JSON object a line. Arguments: a directory of node_modules, the browser, a
// JSON object of addresses by name, a directory for pictures or "".
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import path from "node:path";
const [modules, browserPath, list, shots] = process.argv.slice(2);
const require = createRequire(path.join(modules, "x.js"));
const puppeteer = require("puppeteer-core");
const axe = readFileSync(path.join(modules, "axe-core", "axe.min.js"), "utf8");
const pages = JSON.parse(list);
const say = (o) => process.stdout.write(JSON.stringify(o) + "\n");
const browser = await puppeteer.launch({ timeout: 0, protocolTimeout: 0, executablePath: browserPath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
process.stdin.resume().on("end", () => browser.close().finally(() => process.exit(1)));
try {
  for (const [name, url] of Object.entries(pages)) {
    const origin = new URL(url).origin;
    const page = await browser.newPage();
    page.setDefaultTimeout(0);
    const seen = { name, console: [], elsewhere: [], axe: [], wide: [], small: [] };
    page.on("console", (m) => seen.console.push(m.text()));
    page.on("pageerror", (e) => seen.console.push(String(e)));
    page.on("dialog", (d) => { seen.console.push("dialog: " + d.message()); d.dismiss(); });
    page.on("request", (r) => { if (!r.url().startsWith(origin)) seen.elsewhere.push(r.url()); });
    for (const [width, scheme] of [[1200, "light"], [360, "dark"]]) {
      await page.setViewport({ width, height: 800 });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await page.goto(url, { waitUntil: "load" });
      const [content, frame] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
      if (content > frame) seen.wide.push(`${content} of ${frame} at ${width}`);
      await page.evaluate(axe);
      const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
      for (const v of found.violations) for (const n of v.nodes) seen.axe.push(`${v.impact} ${v.id} ${scheme} ${n.target.join(" ")}: ${n.html.slice(0, 160)}`);
      if (shots) await page.screenshot({ path: path.join(shots, `${name}-${scheme}-${width}.png`), fullPage: true });
    }
    seen.title = await page.title();
    // By keyboard: the first stop leads past the navigation, and every stop is seen.
    await page.keyboard.press("Tab");
    seen.first = await page.evaluate(() => document.activeElement.textContent);
    await page.keyboard.press("Enter");
    seen.at = await page.evaluate(() => document.activeElement.id);
    seen.text = await page.evaluate(() => document.querySelector("main").innerText);
    await page.setJavaScriptEnabled(false);
    await page.goto(url, { waitUntil: "load" });
    seen.plain = await page.$eval("main", (m) => m.innerText);
    await page.close();
    say(seen);
  }
  // An open page shows what comes.
  const page = await browser.newPage();
  page.setDefaultTimeout(0);
  await page.goto(Object.values(pages)[0], { waitUntil: "load" });
  await new Promise((done) => setTimeout(done, 200));
  say({ name: "ready" });
  await page.waitForFunction(() => document.querySelector("main").innerText.includes("late-thread"));
  say({ name: "renewed" });
} finally {
  await browser.close();
}
process.stdin.destroy();
