// Start a run, follow its events, approve its calls, and print the answer. Node 18 or newer.
//
//     RUNWARD_KEY=rw_… node examples/runs/run.mjs ["text for the model"]
//
// It names the tools `lookup_order` and `refund`, which `make run` registers.

import { randomUUID } from "node:crypto";

const url = process.env.RUNWARD_URL ?? "http://127.0.0.1:8080";
const key = process.env.RUNWARD_KEY;
if (!key) throw new Error("RUNWARD_KEY is not set");

const ended = ["run.completed", "run.failed", "run.cancelled", "run.incomplete", "run.expired"];
const input =
  process.argv[2] ??
  'lookup_order(order="A-1017") refund(order="A-1017", amount=50) refund(order="A-1018", amount=500)';

async function send(method, path, body, headers = {}) {
  const answer = await fetch(url + path, {
    method,
    headers: {
      Authorization: `Bearer ${key}`,
      ...(body && { "Content-Type": "application/json" }),
      ...headers,
    },
    body: body && JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer;
}

// Yield every stored event once, in order, until the last one. A broken connection is opened again
// after the last event. The log has no gaps, so no event is missed or repeated.
async function* events(runId) {
  let seen = 0;
  for (;;) {
    const stream = await send("GET", `/v1/runs/${runId}/events`, undefined, {
      Accept: "text/event-stream",
      "Last-Event-ID": String(seen),
    });
    let rest = "";
    try {
      for await (const text of stream.body.pipeThrough(new TextDecoderStream())) {
        const lines = (rest + text).split("\n");
        rest = lines.pop();
        for (const line of lines) {
          if (!line.startsWith("data: ")) continue;
          const event = JSON.parse(line.slice(6)); // every event is one line of JSON
          if (event.sequence === undefined) continue; // transient
          seen = event.sequence;
          yield event;
          if (ended.includes(event.type)) return;
        }
      }
    } catch (error) {
      console.log(`(reconnecting after event ${seen}: ${error.message})`);
    }
  }
}

// The digest identifies the call's arguments: a changed call would be refused.
async function approve({ data: { approval_id, digest } }) {
  const decision = { decision: "approve", digest };
  const answer = await send("POST", `/v1/approvals/${approval_id}/decision`, decision);
  const decided = await answer.json();
  console.log(`        approved ${decided.tool}(${JSON.stringify(decided.arguments)})`);
}

// The same key and body create only one run, so this request is safe to retry.
const started = await send(
  "POST",
  "/v1/runs",
  { model: "offline:rules", tools: ["lookup_order", "refund"], input },
  { "Idempotency-Key": randomUUID() },
);
const { id } = await started.json();
console.log(`started ${id}`);
for await (const event of events(id)) {
  console.log(`${String(event.sequence).padStart(6)}  ${event.type} ${event.data.tool ?? ""}`.trimEnd());
  if (event.type === "tool_call.approval_requested") await approve(event);
}
const run = await (await send("GET", `/v1/runs/${id}`)).json();
console.log(`${run.status}: ${run.output}`);
