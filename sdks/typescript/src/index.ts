export { Agents, Approvals, Runward, Sessions, Tools } from "./client.js";
export type { ApprovalQuery, ListQuery, RunwardOptions, UpsertTool } from "./client.js";
export { RunHandle, Runs } from "./runs.js";
export type { EventOptions, RunQuery, WaitOptions } from "./runs.js";
export type { RequestOptions } from "./transport.js";
export * from "./errors.js";
export type * from "./types.js";
