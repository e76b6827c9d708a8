// Calls tools as tasks with the packages of the MCP project, and prints what each call came to.
// Arguments: the address of the endpoint, an API key, the version of the protocol, and the calls as JSON.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createTaskSessionFromClient } from "@modelcontextprotocol/ext-tasks/client";

const [url, key, version, calls] = process.argv.slice(2);
const modern = version === "2026-07-28";
const clientInfo = { name: "ext-tasks", version: "0.2.2" };
const capabilities = { elicitation: { form: {} } };
const headers = {
  Authorization: `Bearer ${key}`,
  "Content-Type": "application/json",
  Accept: "application/json, text/event-stream",
};

let nextId = 1_000_000;

/** Sends a request of 2026 itself: the client of the SDK accepts no tasks as results. */
async function rawDispatch(request, options = {}) {
  const response = await fetch(url, {
    method: "POST",
    signal: options.signal,
    headers: {
      ...headers,
      "Mcp-Protocol-Version": version,
      "Mcp-Method": request.method,
      ...(request.params.name === undefined ? {} : { "Mcp-Name": request.params.name }),
      ...options.context?.headers,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: nextId++, ...request }),
  });
  const { result, error } = await response.json();
  return error === undefined ? { kind: "result", result } : { kind: "error", error };
}

const client = new Client(clientInfo, {
  capabilities,
  versionNegotiation: { mode: modern ? { pin: version } : "legacy" },
});
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
const questions = [];
const session = createTaskSessionFromClient(client, {
  endpointId: "runward",
  onInputRequest: async (request) => {
    questions.push(request.params.message);
    return { action: "accept", content: { decision: "approve" } };
  },
  ...(modern
    ? {
        rawDispatch,
        v2RequestFraming: { protocolVersion: version, clientInfo, clientCapabilities: capabilities },
      }
    : {}),
});
const found = [];
for (const { name, args } of JSON.parse(calls)) {
  const execution = await session.callTool(name, args, { task: { preference: "prefer" } });
  const { outcome, lastTask } = await execution.settle();
  found.push({ outcome, task: lastTask ?? null, handle: execution.handle ?? null });
}
const listed = modern ? null : (await session.listTasks()).tasks;
await session.close();
await client.close();
console.log(JSON.stringify({ found, questions, listed }));
