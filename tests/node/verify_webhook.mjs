// Verify a request with the library of Standard Webhooks: SECRET HEADERS, and the body on standard input.
import { readFileSync } from "node:fs";
import { Webhook } from "standardwebhooks";

const [secret, headers] = process.argv.slice(2);
console.log(JSON.stringify(new Webhook(secret).verify(readFileSync(0, "utf8"), JSON.parse(headers))));
