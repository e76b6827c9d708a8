// The list of registered tools.

import { registered } from "./registered.js";

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function tools(main, { who, query }) {
  return registered(main, {
    title: "Tools",
    about: "Tools are functions that models can call.",
    path: "v1/tools",
    none: "No tools are registered yet.",
    facts: (tool) => [tool.type, asks(tool.approval), tool.enabled === false ? "off" : null, host(tool.url)],
    also: { href: "#/mcp-servers", label: "MCP servers" },
    add: who.scopes.includes("tools:write") ? { href: "#/new-tool", label: "Register a tool" } : null,
  }, query);
}

/** Return when a call requires an approval. @param {any} approval */
export function asks(approval) {
  return approval === "never" ? null : approval === "always" ? "always requires approval" : "requires approval by rule";
}

/** @param {string | null | undefined} url */
function host(url) {
  return url && URL.canParse(url) ? new URL(url).host : null;
}
