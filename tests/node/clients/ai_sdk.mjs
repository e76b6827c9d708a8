// The AI SDK, with both APIs of OpenAI.

import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount, Output, streamText, tool } from "ai";
import { z } from "zod";

import { ask, base, cashier, hello, joined, key, models, refund, report, weather, wish } from "./shared.mjs";

const openai = createOpenAI({ baseURL: base, apiKey: key });
const get_weather = tool({ inputSchema: z.object({ city: z.string() }), execute: weather });
const Refund = z.object({ amount: z.number().int() });

for (const api of ["chat", "responses"])
  for (const name of models) {
    const model = openai[api](name);
    report(api, name, "text", (await generateText({ model, prompt: hello })).text);
    report(api, name, "stream", await joined(streamText({ model, prompt: hello }).textStream));
    const called = await generateText({
      model,
      prompt: ask,
      tools: { get_weather },
      stopWhen: isStepCount(3),
    });
    report(api, name, "function", called.text);
    const typed = await generateText({ model, prompt: wish, output: Output.object({ schema: Refund }) });
    report(api, name, "output", typed.output);
  }

const model = openai.responses(cashier);
const messages = [{ role: "user", content: refund }];
const first = await generateText({ model, messages });
const decisions = first.content
  .filter((part) => part.type === "tool-approval-request")
  .map(({ approvalId }) => ({
    type: "tool-approval-response",
    approvalId,
    approved: true,
    providerExecuted: true,
  }));
messages.push(...first.response.messages, { role: "tool", content: decisions });
report("responses", cashier, "approval", (await generateText({ model, messages })).text);
