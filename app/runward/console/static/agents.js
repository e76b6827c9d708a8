// The list of registered agents.

import { registered } from "./registered.js";

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function agents(main, { who, query }) {
  return registered(main, {
    title: "Agents",
    about: "An agent is a named model with instructions, tools and limits. You can start runs from an agent.",
    path: "v1/agents",
    none: "No agents are registered yet.",
    facts: (agent) => [
      modelOf(agent),
      some(agent.tools.length, "tool"),
      agent.handoffs.length ? `hands off to ${agent.handoffs.join(", ")}` : null,
    ],
    add: who.scopes.includes("tools:write") ? { href: "#/new-agent", label: "Register an agent" } : null,
  }, query);
}

/** @param {any} agent Its model is null for a workflow. */
export function modelOf(agent) {
  return [agent.model ?? `${agent.kind} of ${agent.agents.join(", ")}`].flat().join(", ");
}

/** @param {number} count @param {string} what */
function some(count, what) {
  return count === 0 ? null : count === 1 ? `1 ${what}` : `${count} ${what}s`;
}
