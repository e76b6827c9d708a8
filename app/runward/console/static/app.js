// The frame of the console: sign-in, menu, and the routes from addresses to views.

import { Problem, session, signOut, whenSignedOut } from "./api.js";
import { fill, h, note, text } from "./dom.js";
import { removeEdits } from "./edits.js";
import { agent } from "./agent.js";
import { agents } from "./agents.js";
import { budgets } from "./budgets.js";
import { inbox } from "./inbox.js";
import { keys } from "./keys.js";
import { mcpServer, mcpServers } from "./mcpservers.js";
import { PendingWatch } from "./pending.js";
import { newAgent, newTool } from "./registering.js";
import { run } from "./run.js";
import { runs } from "./runs.js";
import { schedule, schedules } from "./schedules.js";
import { askForKey, offeredKey } from "./signin.js";
import { start } from "./start.js";
import { tool } from "./tool.js";
import { tools } from "./tools.js";
import { webhookEndpoint, webhookEndpoints } from "./webhooks.js";

/**
 * @typedef {object} Context The argument of every view.
 * @property {any} who The session: key, project, scopes.
 * @property {PendingWatch} watch
 * @property {string} id From the address, `#/runs/{id}`.
 * @property {URLSearchParams} query
 * @property {(to: string) => void} go
 *
 * @typedef {(main: HTMLElement, context: Context) => (() => void)} View Returns what leaves it.
 */

/** The routes. To add a view, add its module and a line here.
 * @type {{at: RegExp, view: View, menu?: [string, string], scope?: string, title: string}[]} */
const VIEWS = [
  { at: /^#\/inbox$/, view: inbox, menu: ["#/inbox", "Inbox"], title: "Inbox" },
  { at: /^#\/runs$/, view: runs, menu: ["#/runs", "Runs"], title: "Runs" },
  { at: /^#\/runs\/(run_[0-9a-f]{32})$/, view: run, title: "Run" },
  { at: /^#\/start$/, view: start, menu: ["#/start", "Start"], title: "Start a run" },
  { at: /^#\/tools$/, view: tools, menu: ["#/tools", "Tools"], title: "Tools" },
  { at: /^#\/tools\/([A-Za-z][\w-]{0,63})$/, view: tool, title: "Tool" },
  { at: /^#\/new-tool$/, view: newTool, title: "Register a tool" },
  { at: /^#\/mcp-servers$/, view: mcpServers, title: "MCP servers" },
  { at: /^#\/mcp-servers\/([A-Za-z][\w-]{0,63})$/, view: mcpServer, title: "MCP server" },
  { at: /^#\/agents$/, view: agents, menu: ["#/agents", "Agents"], title: "Agents" },
  { at: /^#\/agents\/([A-Za-z][\w-]{0,63})$/, view: agent, title: "Agent" },
  { at: /^#\/new-agent$/, view: newAgent, title: "Register an agent" },
  { at: /^#\/schedules$/, view: schedules, menu: ["#/schedules", "Schedules"], title: "Schedules" },
  { at: /^#\/schedules\/([A-Za-z]+_[0-9a-f]{32})$/, view: schedule, title: "Schedule" },
  { at: /^#\/webhook-endpoints$/, view: webhookEndpoints, menu: ["#/webhook-endpoints", "Webhooks"], scope: "admin", title: "Webhook endpoints" },
  { at: /^#\/webhook-endpoints\/([A-Za-z]+_[0-9a-f]{32})$/, view: webhookEndpoint, scope: "admin", title: "Webhook endpoint" },
  { at: /^#\/budgets$/, view: budgets, menu: ["#/budgets", "Budgets"], scope: "admin", title: "Budgets" },
  { at: /^#\/keys$/, view: keys, menu: ["#/keys", "Keys"], scope: "admin", title: "Keys" },
];

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const top_ = /** @type {HTMLElement} */ (document.getElementById("top"));
const go = (/** @type {string} */ to) => void (location.hash = to);

// `#main` in the address would be the route of a view that does not exist.
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

let offered = offeredKey();
let leave = () => {};

/** @param {any} who @param {PendingWatch} watch */
function show(who, watch) {
  leave();
  leave = () => {};
  const [path, search = ""] = (location.hash || "#/inbox").split("?", 2);
  const found = VIEWS.find(({ at }) => at.test(path));
  for (const link of top_.querySelectorAll("nav a")) {
    const here = path === link.getAttribute("href") || path.startsWith(`${link.getAttribute("href")}/`);
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  main.dataset.title = found?.title ?? "Not found";
  title(watch.now.count);
  if (!found) {
    fill(main, h("h1", null, "Not found"), h("p", null, h("a", { href: "#/inbox" }, "Open the inbox")));
    return;
  }
  const id = found.at.exec(path)?.[1] ?? "";
  leave = found.view(main, { who, watch, id, go, query: new URLSearchParams(search) });
  scrollTo(0, 0);
}

/** @param {string} waiting */
function title(waiting) {
  document.title = `${waiting ? `(${waiting}) ` : ""}${main.dataset.title} · Runward`;
}

/** @param {any} who */
function menu(who) {
  const badge = h("span", { class: "count", hidden: true });
  const out = h("button", { type: "button", class: "quiet small" }, "Sign out");
  out.addEventListener("click", () => void signOut().then(() => {
    removeEdits();
    location.reload();
  }, (error) => note(text(error.message), "error")));
  fill(top_,
    h("a", { class: "brand", href: "#/inbox" }, "Runward"),
    h("nav", { "aria-label": "Console" }, VIEWS.flatMap(({ menu: entry, scope }) => (entry && (!scope || who.scopes.includes(scope)) ? [h("a", { href: entry[0] }, entry[1], entry[1] === "Inbox" ? [" ", badge] : null)] : []))),
    h("div", { class: "who" }, h("span", { class: "small soft", title: `Signed in until ${new Date(who.expires_at).toLocaleString()}` }, text(who.project.name), " · ", text(who.key.name)), out));
  return badge;
}

/** @param {string} why */
async function signedOut(why) {
  leave();
  leave = () => {};
  fill(top_);
  document.title = "Sign in · Runward";
  const key = offered;
  offered = "";
  begin(await askForKey(main, key, why));
  main.focus({ preventScroll: true });
}

/** @param {any} who */
function begin(who) {
  const badge = menu(who);
  const watch = new PendingWatch();
  const onHash = () => {
    show(who, watch);
    main.focus({ preventScroll: true });
  };
  whenSignedOut(() => {
    whenSignedOut(() => {});
    watch.stop();
    removeEventListener("hashchange", onHash);
    void signedOut("The session has ended. Sign in again.");
  });
  watch.listen(({ count }) => {
    badge.hidden = !count;
    fill(badge, count, h("span", { class: "hidden" }, " waiting"));
    title(count);
  });
  addEventListener("hashchange", onHash);
  show(who, watch);
  void watch.run();
}

try {
  const who = await session();
  if (who) begin(who);
  else await signedOut("");
} catch (error) {
  if (!(error instanceof Problem)) throw error;
  await signedOut(error.message);
}
