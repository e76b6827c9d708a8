// Run an agent with the AI SDK and the Chat Completions API. The request waits for the approval.
//
//     npm install ai @ai-sdk/openai
//     RUNWARD_KEY=rw_… node ai_sdk.mjs
//
// The key needs only the scope runs:write.

import { createOpenAI } from "@ai-sdk/openai";
import { generateText } from "ai";

const runward = createOpenAI({
  baseURL: `${process.env.RUNWARD_URL ?? "http://127.0.0.1:8080"}/v1`,
  apiKey: process.env.RUNWARD_KEY,
});
const { text } = await generateText({
  model: runward.chat("refund_clerk"),
  prompt: "Refund 500 euros for order A-1018.",
});
console.log(text);
