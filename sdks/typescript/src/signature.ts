// Signatures of Standard Webhooks (https://www.standardwebhooks.com), checked with Web Crypto.

import { RunwardError } from "./errors.js";

/** The request is not signed with one of the secrets, or not signed recently. */
export class SignatureError extends RunwardError {}

export interface SignatureOptions {
  /** A signing secret, `whsec_…`, or several, of which one must match. */
  secret: string | undefined | readonly (string | undefined)[];
  /** How many seconds the timestamp may be off. The default is 300. */
  tolerance?: number;
}

const TOLERANCE_SECONDS = 300;
const MAX_SIGNATURES = 16;
const ALGORITHM = { name: "HMAC", hash: "SHA-256" };

/** Check the signature of a request, or throw a SignatureError. */
export async function verifySignature(
  headers: Headers,
  body: Uint8Array,
  options: SignatureOptions,
): Promise<void> {
  const secrets = readSecrets(options.secret);
  const id = headers.get("webhook-id") ?? "";
  const timestamp = headers.get("webhook-timestamp") ?? "";
  if (id === "" || !/^\d{1,12}$/.test(timestamp)) throw new SignatureError("The request is not signed.");
  const age = Math.abs(Date.now() / 1000 - Number(timestamp));
  if (age > (options.tolerance ?? TOLERANCE_SECONDS)) throw new SignatureError("The timestamp is too old or too new.");
  const signed = concatenate(new TextEncoder().encode(`${id}.${timestamp}.`), body);
  const signatures = (headers.get("webhook-signature") ?? "")
    .split(" ", MAX_SIGNATURES)
    .map((text) => (text.startsWith("v1,") ? fromBase64(text.slice(3)) : null));
  for (const secret of secrets) {
    const key = await crypto.subtle.importKey("raw", secret, ALGORITHM, false, ["verify"]);
    for (const signature of signatures) {
      // `verify` compares in constant time.
      if (signature && (await crypto.subtle.verify("HMAC", key, signature, signed))) return;
    }
  }
  throw new SignatureError("The signature is not valid.");
}

/** Return the keys of signing secrets. Throws a RunwardError if there is none, or one is not valid. */
export function readSecrets(secret: SignatureOptions["secret"]): Uint8Array<ArrayBuffer>[] {
  const keys = [secret].flat().map((text) => fromBase64((text ?? "").replace(/^whsec_/, "")));
  const valid = keys.filter((key) => key !== null && key.length > 0);
  if (valid.length === 0 || valid.length < keys.length) {
    throw new RunwardError("A signing secret is missing or not valid. It begins with whsec_.");
  }
  return valid as Uint8Array<ArrayBuffer>[];
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}

function concatenate(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(first.length + second.length);
  all.set(first);
  all.set(second, first.length);
  return all;
}
