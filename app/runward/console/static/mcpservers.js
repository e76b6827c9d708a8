// The list of registered MCP servers, and the page of one server, where people log in and out.

import { Problem, get, send } from "./api.js";
import { busy } from "./choosing.js";
import { fill, h, note, text } from "./dom.js";
import { ago, moment } from "./format.js";
import { registered } from "./registered.js";
import { asks } from "./tools.js";
import { json } from "./values.js";

/** The label, the tone and the text of each status of a login. @type {Record<string, [string, string, string]>} */
const LOGINS = {
  required: ["Login required", "wait", "A person must log in before Runward can use this server."],
  pending: ["Login started", "wait", "A login has started and is not complete."],
  logged_in: ["Logged in", "good", "Calls use the permissions of the person who logged in."],
  expired: ["Login expired", "bad", "Calls fail until a person logs in again."],
};

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function mcpServers(main, { query }) {
  return registered(main, {
    title: "MCP servers",
    about: "MCP servers provide tools. To register a server, use the API or the command line.",
    path: "v1/mcp_servers",
    none: "No MCP servers are registered yet.",
    facts: (server) => [count(server), server.oauth?.login_status ? LOGINS[server.oauth.login_status]?.[0] ?? null : null, place(server)],
    add: null,
  }, query);
}

/** @param {any} server */
const count = ({ tool_names: { length } }) => `${length} ${length === 1 ? "tool" : "tools"}`;
/** @param {any} server @returns {string} */
const place = ({ url, command, args }) => url ?? [command, ...args].join(" ");

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function mcpServer(main, { id, who }) {
  const leaving = new AbortController();
  const path = `v1/mcp_servers/${encodeURIComponent(id)}`;
  const head = [h("p", { class: "crumbs" }, h("a", { href: "#/mcp-servers" }, "MCP servers")), h("h1", null, text(id))];
  const may = who.scopes.includes("tools:write");
  fill(main, head, h("p", { class: "soft" }, "Loading…"));

  const look = () => get(path, undefined, leaving.signal).then(
    (found) => fill(main, head,
      found.oauth?.login_status ? login(found, path, may, look) : null,
      about(found),
      may && (found.oauth?.login_status ?? "logged_in") === "logged_in" ? h("div", { class: "actions" }, action("Read the tools again", "", async () => {
        await send("POST", `${path}/refresh`);
        note([text(found.name), ": the tools are up to date."]);
        await look();
      })) : null,
      h("details", { class: "card" }, h("summary", null, "All fields as JSON"), json(found))),
    (error) => leaving.signal.aborted || fill(main, head, h("p", { class: "wrong" }, text(error.message))));
  void look();
  return () => leaving.abort();
}

/**
 * Return a button. An error of `act` is shown as a note.
 * @param {string} label @param {string} kind @param {() => Promise<void>} act
 */
function action(label, kind, act) {
  const button = h("button", { type: "button", class: kind }, label);
  button.addEventListener("click", async () => {
    const release = busy(/** @type {HTMLElement} */ (button.parentElement));
    try {
      await act();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      note(text(error.message), "error");
    } finally {
      release();
    }
  });
  return button;
}

/** Return the section in which people log in and out. @param {any} found @param {string} path @param {boolean} may @param {() => Promise<any>} look */
function login(found, path, may, look) {
  const { login_status: status, login_error: error, logged_in_at: at } = found.oauth;
  const [label, tone, meaning] = LOGINS[status] ?? [text(status), "", ""];
  const goIn = action(status === "logged_in" ? "Log in again" : "Log in", status === "logged_in" ? "" : "primary", async () => {
    const { url } = await send("POST", `${path}/login`, { return_to_console: true });
    if (!/^https?:\/\//i.test(url)) throw new Problem(0, { detail: "The address of the login page does not begin with https://." });
    location.assign(url);
  });
  const goOut = action("Log out", "quiet danger", async () => {
    await send("DELETE", `${path}/login`);
    note(["Logged out of ", text(found.name), "."]);
    await look();
  });
  return h("section", { class: "card", "aria-label": "Login" },
    h("h2", null, "Login"),
    h("p", null, h("span", { class: `badge ${tone}` }, label), at ? h("span", { class: "soft small", title: moment(at) }, ` ${ago(at, Date.now())}`) : null),
    error ? h("p", { class: "wrong", role: "alert" }, "The last login failed: ", text(error)) : null,
    h("p", { class: "soft" }, meaning),
    may ? h("div", { class: "actions" }, goIn, at ? goOut : null) : h("p", { class: "soft" }, "To log in, an API key requires the scope ", h("code", null, "tools:write"), "."));
}

/** @param {any} found */
function about(found) {
  const none = () => h("span", { class: "soft" }, "none");
  const rule = found.approval?.when ? [asks(found.approval), ": ", h("code", null, text(found.approval.when))] : asks(found.approval) ?? "never";
  /** @type {[string, import("./dom.js").Child][]} */
  const facts = [
    ["Location", h("code", { class: "url" }, text(place(found)))],
    ["Approval is required", found.approval === null ? "unless the server marks the tool as read-only" : rule],
    ["Tools", found.tool_names.length ? found.tool_names.flatMap((/** @type {string} */ name, /** @type {number} */ at) => [at ? ", " : "", h("a", { href: `#/tools/${name}` }, text(name))]) : none()],
    ["Skipped tools", found.skipped.length ? h("ul", { class: "plain" }, found.skipped.map((/** @type {any} */ one) => h("li", null, h("code", null, text(one.tool)), ": ", text(one.reason)))) : none()],
    ["Listed", h("span", { title: moment(found.listed_at) }, ago(found.listed_at, Date.now()))],
    ["Version", [String(found.version), h("span", { class: "soft", title: moment(found.updated_at) }, ` updated ${ago(found.updated_at, Date.now())}`)]],
  ];
  return h("dl", { class: "rows about" }, facts.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
}
