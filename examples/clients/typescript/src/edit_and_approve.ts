// Register a tool, start a run, follow its events, approve a call with other arguments, run the
// tool here, and read the result: with the types that `make clients` generates from openapi.json.
//
//   RUNWARD_URL=http://127.0.0.1:8080 RUNWARD_KEY=rw_… npm start

import createClient from "openapi-fetch";
import type { Event, JsonObject, paths, Problem, RequiredAction, StreamedEvent } from "./runward.js";

const MODEL = process.env["MODEL"] ?? "offline:rules";
const client = createClient<paths>({
  baseUrl: process.env["RUNWARD_URL"] ?? "http://127.0.0.1:8080",
  headers: { Authorization: `Bearer ${process.env["RUNWARD_KEY"]}` },
});

/** Return the response if it is not an error. */
function expect<T>({ data, error }: { data?: T; error?: Problem }): T {
  if (error !== undefined) throw new Error(`${error.status} ${error.code}: ${error.detail}`);
  if (data === undefined) throw new Error("There is no answer.");
  return data;
}

/** Yield every event once and in order, until the last one. Broken streams are opened again. */
async function* follow(run_id: string): AsyncGenerator<Event> {
  let seen = 0;
  for (;;) {
    const answer = await client.GET("/v1/runs/{run_id}/events", {
      params: { path: { run_id }, header: { "Last-Event-ID": String(seen) } },
      headers: { Accept: "text/event-stream" },
      parseAs: "stream",
    });
    if (answer.response.status === 204) return;
    const stream = expect<unknown>(answer) as ReadableStream<Uint8Array>;
    try {
      for await (const event of frames(stream)) {
        if (!("sequence" in event)) continue; // a piece of what comes whole later
        seen = event.sequence;
        yield event;
      }
    } catch (broken) {
      console.error(`The stream broke (${broken}); coming back after event ${seen}.`);
    }
  }
}

async function* frames(stream: ReadableStream<Uint8Array>): AsyncGenerator<StreamedEvent> {
  const decoder = new TextDecoder();
  let buffer = "";
  for await (const chunk of stream) {
    buffer += decoder.decode(chunk, { stream: true });
    const whole = buffer.split("\n\n");
    buffer = whole.pop() ?? "";
    for (const frame of whole) {
      const data = frame.split("\n").find((line) => line.startsWith("data: "));
      if (data !== undefined) yield JSON.parse(data.slice("data: ".length)) as StreamedEvent;
    }
  }
}

/** Perform the action that the run requires. */
async function act(run_id: string, action: RequiredAction): Promise<void> {
  switch (action.type) {
    case "approval": {
      const body = {
        decision: "edit" as const,
        arguments: { ...action.arguments, amount: 50 },
        digest: action.digest,
      };
      const path = { approval_id: action.approval_id };
      expect(await client.POST("/v1/approvals/{approval_id}/decision", { params: { path }, body }));
      return;
    }
    case "tool_result": {
      const body = { output: refund(action.arguments) };
      const path = { run_id, call_id: action.call_id };
      const url = "/v1/runs/{run_id}/tool_calls/{call_id}/result";
      expect(await client.POST(url, { params: { path }, body }));
      return;
    }
    case "resolve":
      throw new Error(`Nobody here can settle ${action.call_id}.`);
  }
}

function refund(given: JsonObject): JsonObject {
  return { refunded: given["amount"] };
}

const made = await client.POST("/v1/tools", {
  body: {
    name: "refund_here",
    description: "Refunds an amount for an order.",
    type: "client",
    approval: "always",
    parameters: {
      type: "object",
      properties: { order: { type: "string" }, amount: { type: "number" } },
      required: ["order", "amount"],
    },
  },
});
if (made.error?.code !== "already_exists") expect(made);

const run = expect(
  await client.POST("/v1/runs", {
    body: {
      model: MODEL,
      input: 'refund_here(order="A-1017", amount=500)',
      tools: ["refund_here"],
    },
  }),
);
if (typeof run === "string") throw new Error("That is a stream.");

for await (const event of follow(run.id)) {
  console.log(String(event.sequence).padStart(3), event.type);
  switch (event.type) {
    case "run.waiting": {
      const path = { run_id: run.id };
      const now = expect(await client.GET("/v1/runs/{run_id}", { params: { path } }));
      for (const action of now.required_actions) await act(run.id, action);
      break;
    }
    case "run.completed":
      console.log(event.data.output);
  }
}
