// Inline tools: definitions of tools that belong only to a run or an agent.

import { get } from "./api.js";
import { isObject } from "./exact.js";

/** The version of every inline tool. */
const INLINE = 0;
/** What the API shows in place of a header's value. */
const HIDDEN = "…";
/** The settings of a tool of an MCP server that a run or an agent can change. */
const OVERRIDABLE = [
  "approval", "approval_expires_seconds", "reject_message", "enabled", "timeout_seconds", "on_timeout", "on_error", "on_unknown",
  "guardrails", "concurrency", "max_output_bytes", "defer", "metadata",
];

/**
 * Return the tool of an approval, in the version of its call. Returns undefined if the tool has changed.
 * @param {any} approval
 * @returns {Promise<any>} Rejects if the key cannot read the tool.
 */
export async function toolOf({ tool: name, tool_version: version, run_id: id, agent }) {
  if (version !== INLINE) {
    const tool = await get(`v1/tools/${encodeURIComponent(name)}`);
    return tool.version === version ? tool : undefined;
  }
  const find = (/** @type {any} */ { tools }) => definitionsIn(tools).find((one) => one.name === name);
  const { config } = await get(`v1/runs/${encodeURIComponent(id)}`, { include: "config" });
  // After a handoff, the tool may belong to the new agent.
  return find(config) ?? find(await get(`v1/agents/${encodeURIComponent(agent)}`));
}

/** Return the definitions among the tools of a run or an agent. @param {any[]} tools */
export function definitionsIn(tools) {
  return tools.filter(isObject);
}

/** Convert a definition that the API shows to a definition for a request, without empty fields. @param {any} shown */
export function definitionOf(shown) {
  const { parameters, mcp, ...rest } = shown;
  const fields = Object.entries(rest).filter(([, value]) => !isEmpty(value));
  if (mcp) return { type: "mcp", server: mcp.server, tool: mcp.tool, ...Object.fromEntries(fields.filter(([name]) => OVERRIDABLE.includes(name))) };
  return { ...Object.fromEntries(fields), ...(shown.hosted || shown.implements ? {} : { parameters }) };
}

/** Return the names of the headers whose values are missing. @param {any} definition @returns {string[]} */
export function missingHeaders(definition) {
  return isObject(definition?.headers) ? Object.entries(definition.headers).filter(([, value]) => value === HIDDEN).map(([name]) => name) : [];
}

/** @param {any} value */
function isEmpty(value) {
  if (Array.isArray(value)) return value.length === 0;
  return value === null || value === "" || (isObject(value) && Object.keys(value).length === 0);
}
